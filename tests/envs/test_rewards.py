from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, Space

from rlkit_sac.envs.observations import RewardConversion


class Rewarding(gym.Env[Any, Any]):
    """Gives whatever reward it is told to."""

    observation_space = Box(-1.0, 1.0, (1,))
    action_space = Discrete(2)

    def __init__(self, reward: Any, reward_space: Space[Any] | None = None) -> None:
        self.given = reward
        if reward_space is not None:
            self.reward_space = reward_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        return np.zeros(1, np.float32), self.given, False, False, {}


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
    convert = RewardConversion(Rewarding(reward, space))
    found = convert(reward)
    assert found.dtype == np.float32
    assert found.tolist() == wanted
    assert convert.shape == (len(wanted),)
