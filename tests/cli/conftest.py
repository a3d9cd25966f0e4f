"""A folder in which commands run, and a short run in it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlkit_sac.cli import main

SHORT = [
    *("--collector.total_frames", "120", "--collector.init_random_frames", "50"),
    *("--collector.learning_starts", "90", "--replay.batch_size", "16", "--compile", "false"),
    *("--network.num_cells", "[8]", "--env.max_episode_steps", "50", "--logging.progress", "false"),
    *("--evaluation.interval", "60", "--evaluation.episodes", "3", "--device", "cpu"),
]
MY_TASKS = """
import gymnasium as gym
import numpy as np


class Reach(gym.Env):
    observation_space = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)
    action_space = gym.spaces.Box(-0.5, 0.5, (1,), np.float32)

    def __init__(self, start=1.0):
        self.start = start

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-self.start, self.start, 1).astype(np.float32)
        return self.x, {}

    def step(self, action):
        self.x = np.clip(self.x + action, -2.0, 2.0)
        return self.x, -float(abs(self.x[0])), False, False, {}


class TwoRewards(Reach):
    reward_space = gym.spaces.Box(-2.0, 2.0, (2,))

    def step(self, action):
        x, reward, *ends = super().step(action)
        return x, np.array([reward, -float(abs(action[0]))]), *ends


class Picture(Reach):
    observation_space = gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros((8, 8, 3), np.uint8), {}

    def step(self, action):
        return np.zeros((8, 8, 3), np.uint8), 0.0, False, False, {}


gym.register("Reach-v0", Reach)
gym.register("TwoRewards-v0", TwoRewards)
gym.register("Picture-v0", Picture, max_episode_steps=20)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder; what commands change of the process is undone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["rlkit-sac"])
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each not in ("", os.getcwd())])
    return tmp_path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a short run of `rlkit-sac train`, made in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("trained"))
        patch.setattr(sys, "argv", ["rlkit-sac"])
        patch.setattr(sys, "path", sys.path[:])
        assert main(["train", "sac", "--config", "pendulum", *SHORT]) == 0
        (found,) = Path.cwd().glob("runs/sac/Pendulum-v1/*")
        yield found
