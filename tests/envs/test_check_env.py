"""What `check_env` finds in fifty random steps."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from rlkit_sac.envs import check_env
from rlkit_sac.errors import ConfigError, EnvironmentFault


class Faulty(gym.Env):
    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, observation, reward=0.0):
        self.values = np.float32(observation), reward

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return *self.values, False, False, {}


gym.register("Faulty-v0", Faulty, max_episode_steps=20)


def test_an_environment_that_keeps_what_it_declares_passes():
    check_env("Faulty-v0", kwargs={"observation": [0.5, -0.5]})


def test_another_shape_is_a_fault_of_the_environment():
    with pytest.raises(EnvironmentFault, match=r"the observation has the shape \[3\]"):
        check_env("Faulty-v0", kwargs={"observation": [0.5, 0.5, 0.5]})


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"observation": [0.5, float("nan")]}, "observation"),
        ({"observation": [0.5, 0.5], "reward": float("inf")}, "reward"),
    ],
)
def test_what_is_not_finite_is_refused(values, name):
    with pytest.raises(ConfigError, match=f"the {name} is not finite within 50 random steps"):
        check_env("Faulty-v0", kwargs=values)


def test_an_observation_outside_of_its_space_is_warned_of():
    with pytest.warns(UserWarning, match=r"leaves its space, which declares from \[-1.0, -1.0\]"):
        check_env("Faulty-v0", kwargs={"observation": [0.5, 2.0]})
