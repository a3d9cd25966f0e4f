"""A folder in which recipes run, with environments that fail."""

from pathlib import Path

import pytest

BROKEN_ENVS = """
import gymnasium as gym
import numpy as np


class Broken(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,))

    def __init__(self, bound=1.0, spoil=None):
        self.action_space = gym.spaces.Box(-bound, bound, (2,))
        self.spoil = spoil
        self.steps = 0

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        bad = self.steps == 27
        observation = np.full(2, np.inf if bad and self.spoil == "observation" else 0.5, np.float32)
        return observation, np.nan if bad and self.spoil == "reward" else 1.0, False, False, {}


class Vector(Broken):
    reward_space = gym.spaces.Box(0, 1, (2,))

    def step(self, action):
        observation, reward, *ends = super().step(action)
        return observation, np.array([1.0, reward]), *ends


gym.register("Broken-v0", entry_point=Broken, max_episode_steps=10)
gym.register("Vector-v0", entry_point=Vector, max_episode_steps=10)
"""


@pytest.fixture
def workplace(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_envs.py").write_text(BROKEN_ENVS)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path
