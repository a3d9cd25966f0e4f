from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from tensordict import TensorDict

from rlkit_sac.data import check_finite, make_collector
from rlkit_sac.envs import make_env
from rlkit_sac.errors import RunError
from rlkit_sac.modules import tanh_gaussian_actor
from tests.data.collect.kinds import BOTH, Kind, of_kind
from tests.envs.conftest import Still


@pytest.mark.parametrize("key", ["observation", ("next", "reward")])
@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
def test_the_first_bad_frame_of_a_batch_of_environments_is_named(key, number):
    frames = TensorDict(
        {
            "observation": torch.zeros(3, 5, 2),
            "next": {"reward": torch.zeros(3, 5, 1), "done": torch.ones(3, 5, 1, dtype=torch.bool)},
        },
        batch_size=[3, 5],
    )
    check_finite(frames)
    frames[key][1, 4, -1] = number
    frames[key][2, 3, -1] = number
    with pytest.raises(RunError) as error:
        check_finite(frames)
    assert str(error.value).startswith(
        f"{key!r} is {number} at frame 4 of the batch in environment 2."
    )


# ------------------------------------------------------------------ by a collector alone


class Spoiled(Still):
    """Returns NaN or infinity in its eighth step."""

    def __init__(self, spoil: str = "", discrete: bool = False) -> None:
        self.action_space = Discrete(2) if discrete else Box(-1, 1, (1,))
        self.spoil, self.steps = spoil, 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        bad = self.spoil if self.steps == 8 else ""
        observation = np.full(2, np.inf if bad == "observation" else 0.5, np.float32)
        return observation, np.nan if bad == "reward" else 1.0, False, False, {}


gym.register("Spoiled-v0", entry_point=Spoiled, max_episode_steps=5)


@BOTH
@pytest.mark.parametrize(("num_envs", "frames"), [(1, "5 to 8"), (3, "13 to 24")])
@pytest.mark.parametrize(("spoil", "number"), [("reward", "nan"), ("observation", "inf")])
def test_a_collector_stops_before_a_spoiled_batch(
    kind: Kind, num_envs: int, frames: str, spoil: str, number: str
) -> None:
    env = of_kind(make_env("Spoiled-v0", num_envs=num_envs, kwargs={"spoil": spoil}), kind)
    policy = tanh_gaussian_actor(2, [-1.0], [1.0], num_cells=[4])
    size = 4 * num_envs
    collector = make_collector(env, policy, total_frames=10 * size, frames_per_batch=size)
    batches = iter(collector)
    assert bool(next(batches)["next", "reward"].isfinite().all())
    with pytest.raises(RunError) as error:
        next(batches)
    start = f"at the frames {frames} of the run: ('next', {spoil!r}) is {number} at frame 3 of its "
    assert str(error.value).startswith(start)
