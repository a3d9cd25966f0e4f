"""What `check_env` finds."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from rlkit_sac.envs import check_env
from rlkit_sac.errors import EnvironmentFault


class Faulty(gym.Env):
    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, observation, reward=0.0):
        self.observation, self.reward = observation, reward

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.array(self.observation, np.float32), self.reward, False, False, {}


gym.register("Faulty-v0", Faulty, max_episode_steps=20)


def test_an_environment_that_keeps_what_it_declares_passes():
    check_env("Faulty-v0", kwargs={"observation": [0.5, -0.5]})


def test_an_exception_is_a_fault_of_the_environment():
    with pytest.raises(EnvironmentFault, match=r"Faulty-v0: ValueError: could not convert"):
        check_env("Faulty-v0", kwargs={"observation": ["nothing"]})


@pytest.mark.parametrize(
    ("values", "warning"),
    [
        ({"observation": [0.5, 2.0]}, "is not within the observation space"),
        ({"observation": [0.5, 0.5], "reward": float("inf")}, "The reward is an inf value"),
    ],
)
def test_gymnasium_warns_of_numbers_out_of_range(values, warning):
    with pytest.warns(UserWarning, match=warning):
        check_env("Faulty-v0", kwargs=values)
