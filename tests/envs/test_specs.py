from collections.abc import Callable

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlkit_sac.envs import continuous_action_bounds, make_env, observation_dim
from rlkit_sac.errors import ConfigError

Register = Callable[..., str]
BOX = Box(np.float32([-3.0, 0.125]), np.float32([0.5, 0.25]))


@pytest.mark.parametrize("num_envs", [1, 3])
def test_bounds_are_in_the_units_of_the_action_entry(register: Register, num_envs: int) -> None:
    env_id = register(BOX)
    for rescale, wanted in ((True, ([-1, -1], [1, 1])), (False, ([-3.0, 0.125], [0.5, 0.25]))):
        env = make_env(env_id, num_envs=num_envs, rescale_actions=rescale)
        assert continuous_action_bounds(env) == wanted


@pytest.mark.parametrize("num_envs", [1, 3])
def test_the_observation_is_that_of_one_environment(register: Register, num_envs: int) -> None:
    env = make_env(register(BOX, Box(-1.0, 1.0, (7,))), num_envs=num_envs)
    assert observation_dim(env) == 7


def test_other_actions_are_refused(register: Register) -> None:
    env = make_env(register(Discrete(3)))
    with pytest.raises(ConfigError, match="continuous spaces, but the actions are Categorical of"):
        continuous_action_bounds(env)


def test_other_observations_are_refused(register: Register) -> None:
    env = make_env(register(BOX, Box(0, 255, (8, 8, 3), np.uint8)))
    with pytest.raises(ConfigError, match=r"read vectors, but .* shape \[8, 8, 3\]: flatten it"):
        observation_dim(env)
