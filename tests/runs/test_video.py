"""Videos of policies: what is recorded, on which episodes, and what a failure leaves."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
import torch
from gymnasium.spaces import Box
from imageio.v2 import get_reader, mimread
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.envs import make_env
from rlkit_sac.errors import ConfigError, RunError
from rlkit_sac.modules import hybrid_critic, state_primer, tanh_gaussian_actor
from rlkit_sac.objectives import HybridSACLoss
from rlkit_sac.runs import evaluate, record_run, record_video
from tests.recipes.running import Recipe
from tests.reliability.runs import table

SAC = Recipe("sac", "SACConfig")
VIDEO = ["--evaluation.video", "true", "--env.id", "Drawn-v0"]
SHORT = ["--collector.total_frames", "200", "--evaluation.interval", "100"]


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


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_a_policy_with_memory_remembers_its_episode(tmp_path: Path, kind: Any) -> None:
    torch.manual_seed(0)
    memory: Any = {"kind": kind, "size": 8, "action_dim": 1}
    actor = tanh_gaussian_actor(2, [-1.0], [1.0], memory=memory).eval()
    carrying = make_env("Drawn-v0").append_transform(state_primer(actor))
    wanted = []
    with set_exploration_type(ExplorationType.DETERMINISTIC), torch.no_grad():
        for seed in (7, 8):
            carrying.set_seed(seed)
            steps = carrying.rollout(20, actor)
            wanted.append(steps["next", "episode_reward"][-1].item())
    env = make_env("Drawn-v0", render_mode="rgb_array")
    files = record_video(actor, env, tmp_path, episodes=2, seed=7, format="gif")
    assert list(files.values()) == wanted


def test_a_built_in_task_is_recorded_at_its_speed(tmp_path: Path) -> None:
    env = make_env("Platform-v0", render_mode="rgb_array")
    key = ("action", "continuous")
    actor = tanh_gaussian_actor(9, [-1.0] * 3, [1.0] * 3, action_key=key)
    policy = HybridSACLoss(actor, hybrid_critic(9, 3, 3)).policy().eval()
    (file,) = record_video(policy, env, tmp_path)
    (length,) = evaluate(policy, env, episodes=1, seed=0).lengths
    video: Any = get_reader(file)
    assert video.get_meta_data()["fps"] == 2.0
    assert video.get_meta_data()["size"] == (640, 128)
    assert video.count_frames() == length + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "avi"}, "format is 'avi'; choose 'mp4' or 'gif'"),
        ({"episodes": 0}, "episodes must be >= 1 and seed >= 0, got episodes 0 and seed 0"),
    ],
)
def test_options_out_of_range_are_one_line(options: Any, message: str) -> None:
    env = make_env("Drawn-v0", render_mode="rgb_array")
    with pytest.raises(ConfigError, match=message):
        record_video(policy(), env, "videos", **options)
    assert not Path("videos").exists()


@pytest.mark.parametrize("options", [{}, {"num_envs": 2, "render_mode": "rgb_array"}])
def test_an_environment_without_images_or_with_several_is_one_line(options: Any) -> None:
    with pytest.raises(ConfigError, match=r"videos need make_env\(\.\.\., render_mode"):
        record_video(policy(), make_env("Drawn-v0", **options), "videos")


def test_a_failure_in_an_episode_leaves_no_partial_file() -> None:
    env = make_env("Drawn-v0", kwargs={"images": 15}, render_mode="rgb_array")
    with pytest.raises(
        ConfigError, match="Drawn-v0 cannot be rendered on this machine: OSError: no display; for"
    ):
        record_video(policy(), env, "videos", episodes=2)
    assert len(list(Path("videos").iterdir())) == 1


def test_a_folder_that_cannot_be_made_is_one_line() -> None:
    Path("videos").write_text("")
    env = make_env("Drawn-v0", render_mode="rgb_array")
    with pytest.raises(RunError, match="cannot write videos in videos: File exists"):
        record_video(policy(), env, "videos")


# ------------------------------------------------------------------ of a run


def test_a_run_ends_with_a_video_of_its_best_policy_and_is_the_same_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = [*SHORT, "--env.id", "Drawn-v0", "--env.max_episode_steps", "8"]
    without, run = SAC.train(*options), SAC.train(*options, *VIDEO)
    for name in ("metrics", "episodes", "evaluations"):
        assert table(run, name) == table(without, name)
    evaluations = pd.read_csv(run / "evaluations.csv")
    best = evaluations.sort_values(["return_mean", "frames"]).iloc[-1]
    (file,) = (run / "videos").iterdir()
    first = eval(best["returns"])[0]
    assert file.name == f"step_{best['frames']}-episode_0-return_{first:.2f}.mp4"
    assert len(mimread(file)) == 9  # with the time limit of the run
    assert f"video            {file}\n" in capsys.readouterr().out
    files = record_run(run, which="best", folder="here", episodes=2, seed=3, format="gif")
    assert [file.parent.name for file in files] == ["here", "here"]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ("{modes: [human]}", "Drawn-v0 cannot render in mode 'rgb_array'; its modes are 'human'"),
        ("{images: 0}", "Drawn-v0 cannot be rendered on this machine: OSError: no display"),
    ],
)
def test_a_task_that_cannot_be_rendered_is_refused_at_the_start(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, kwargs: str, message: str
) -> None:
    arguments = f"{' '.join(VIDEO)} --env.kwargs {kwargs}"
    SAC.assert_refused(capsys, tmp_path, arguments, f"--evaluation.video: {message}")


def test_a_missing_package_is_refused_at_the_start(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        "rlkit_sac.runs.extras.find_spec",
        lambda name: None if name == "imageio_ffmpeg" else find_spec(name),
    )
    message = (
        "--evaluation.video: the package imageio_ffmpeg is missing: pip install 'rlkit_sac[video]'"
    )
    SAC.assert_refused(capsys, tmp_path, " ".join(VIDEO), message)


def test_a_failure_to_record_is_a_warning_after_a_finished_run() -> None:
    with pytest.warns(UserWarning, match="no video was recorded: ConfigError: Drawn-v0 cannot"):
        run = SAC.train(*SHORT, *VIDEO, "--env.kwargs", "{images: 4}")
    assert '"status": "finished"' in (run / "run.json").read_text()
    assert not list((run / "videos").iterdir())
