"""What `check_env` finds."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

from rlkit_sac.envs import check_env


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
