"""Rewards as arrays, with one number for each objective."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from rlkit_sac.errors import ConfigError


class ArrayReward(gym.RewardWrapper[Any, Any]):
    """Turns any reward into a float32 array `[M]`: one number, or one for each objective.

    M is that of the ``reward_space`` that an environment of vector rewards declares, as those of
    MO-Gymnasium do; without one it is 1.

    Args:
        env: any Gymnasium environment.

    Raises:
        ConfigError: the declared space is no `Box`.
        ValueError: in a step, for a reward of another shape than the declared one.

    >>> env = ArrayReward(gym.make("Pendulum-v1"))
    >>> _ = env.reset(seed=0)
    >>> env.step(np.zeros(1))[1].shape
    (1,)
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        declared = None
        if env.has_wrapper_attr("reward_space"):
            declared = env.get_wrapper_attr("reward_space")
        if not isinstance(declared, Box | None):
            raise ConfigError(
                f"the reward space {declared} is not supported; it must be a Box, with one number "
                "for each objective"
            )
        self._shape = (1,) if declared is None else declared.shape or (1,)
        self.reward_space = Box(-np.inf, np.inf, self._shape, np.float32)

    def reward(self, reward: Any) -> NDArray[np.float32]:
        """Returns the reward as an array of the declared shape."""
        array = np.asarray(reward, dtype=np.float32)
        if array.shape == self._shape:
            return array
        if array.size != 1 or self._shape != (1,):
            raise ValueError(
                f"the reward has the shape {list(array.shape)}, but the environment declares "
                f"{list(self._shape)} (by its attribute reward_space, a Box as long as the vector; "
                "a scalar without it)"
            )
        return array.reshape(self._shape)
