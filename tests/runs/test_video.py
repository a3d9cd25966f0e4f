"""Videos of policies: what is recorded, on which episodes, and what a failure leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from imageio.v2 import mimread

from rlkit_sac.envs import make_env
from rlkit_sac.modules import tanh_gaussian_actor
from rlkit_sac.runs import evaluate, record_video
from tests.recipes.running import Recipe

SAC = Recipe("sac", "SACConfig")


class Drawn(gym.Env[Any, Any]):
    """The image is as bright as the step of the episode; after `images` of them it fails."""

    observation_space = Box(-1, 1, (2,))
    action_space = Box(-1, 1, (1,))
    reward_space = Box(-1, 1, (1,))

    def __init__(self, render_mode: str | None = None, images: int = 10_000, modes: Any = None):
        self.metadata = {"render_modes": ["rgb_array"] if modes is None else modes}
        self.render_mode, self.images, self.steps = render_mode, images, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        reward = 1.0 + float(action[0])
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), reward, False, False, {}

    def render(self) -> Any:
        Drawn.drawn += 1
        if Drawn.drawn > self.images:
            raise OSError("no display")
        return np.full((31, 48, 3), 20 * self.steps, np.uint8)

    drawn = 0


@pytest.fixture(autouse=True)
def _task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    gym.register("Drawn-v0", entry_point=Drawn, max_episode_steps=10)
    Drawn.drawn = 0
    monkeypatch.chdir(tmp_path)
    yield
    del gym.registry["Drawn-v0"]


def policy() -> Any:
    torch.manual_seed(0)
    return tanh_gaussian_actor(2, [-1.0], [1.0]).eval()


@pytest.mark.parametrize("format", ["mp4", "gif"])
def test_the_episodes_are_those_of_an_evaluation(tmp_path: Path, format: Any) -> None:
    actor, env = policy(), make_env("Drawn-v0", render_mode="rgb_array")
    before = torch.get_rng_state()
    files = record_video(actor, env, "videos", episodes=2, seed=7, format=format, prefix="a-")
    assert torch.equal(torch.get_rng_state(), before)
    assert list(files.values()) == evaluate(actor, env, episodes=2, seed=7).returns.tolist()
    assert [file.name for file in files] == [
        f"a-episode_{i}-return_{value:.2f}.{format}" for i, value in enumerate(files.values())
    ]
    assert sorted(Path("videos").iterdir()) == sorted(files)
    for file in files:
        images = [np.asarray(image)[..., :3] for image in mimread(file)]
        assert len(images) == 11  # the first observation, and those of ten steps
        brightness = [image.mean() for image in images]
        np.testing.assert_allclose(brightness, 20 * np.arange(11), atol=4)
        assert images[0].shape[0] in (31, 32)  # of H.264 even
