from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Space
from gymnasium.wrappers import TransformReward

from rlkit_sac.envs.observations import RewardConversion
from tests.envs.conftest import Still

PAIR = Box(-1.0, 1.0, (2,), np.float64)


@pytest.mark.parametrize(
    ("reward", "space", "wanted"),
    [
        (3, None, [3.0]),
        (0, None, [0.0]),
        (np.float64(0.1), None, [np.float32(0.1)]),
        (np.array(2.0), None, [2.0]),
        (np.array([2.0]), None, [2.0]),
        (0.5, Box(0.0, 1.0, ()), [0.5]),
        (np.array([1.0, 0.1]), PAIR, [1.0, np.float32(0.1)]),
        ([1, -1], PAIR, [1.0, -1.0]),
        (np.array([4.0]), Box(0.0, 9.0, (1,)), [4.0]),
    ],
)
def test_a_reward_becomes_a_vector_of_the_declared_length(
    reward: Any, space: Space[Any] | None, wanted: list[float]
) -> None:
    env = Still()
    if space is not None:
        env.reward_space = space
    convert = RewardConversion(env)
    found = convert(reward)
    assert found.dtype == np.float32
    assert found.tolist() == wanted
    assert convert.shape == (len(wanted),)
    assert RewardConversion(TransformReward(env, sum)).shape == (1,)  # which declares nothing
