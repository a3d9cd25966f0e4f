"""What `check_env` finds."""

import gymnasium as gym
import numpy as np
import pytest

from rlkit_sac.envs import check_env
from rlkit_sac.errors import EnvironmentFault
from tests.envs.conftest import Still


class Faulty(Still):
    def __init__(self, observation, reward=0.0):
        self.observation, self.reward = observation, reward

    def step(self, action):
        return np.array(self.observation, np.float32), self.reward, False, False, {}


gym.register("Checked-v0", Faulty, max_episode_steps=20)


def test_an_environment_that_keeps_what_it_declares_passes():
    check_env("Checked-v0", kwargs={"observation": [0.5, -0.5]})


def test_what_it_does_not_keep_is_a_fault():
    with pytest.raises(EnvironmentFault, match=r"^Checked-v0: AssertionError: .*reward"):
        check_env("Checked-v0", kwargs={"observation": [0.5, 0.5], "reward": np.nan})


class OwnNumbers(Faulty):
    """Draws from a generator of its own, as MinAtar's games do."""

    random = np.random.default_rng()

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.random = np.random.default_rng(seed)
        return self.random.uniform(-1, 1, 2).astype(np.float32), {}


gym.register("OwnNumbers-v0", OwnNumbers, max_episode_steps=20)


def test_random_numbers_of_its_own_are_a_warning(capsys):
    check_env("OwnNumbers-v0", kwargs={"observation": [0.5, -0.5]})
    assert capsys.readouterr().err.startswith("warning: OwnNumbers-v0: Expects the random number")
