"""Action adapters: one Gymnasium wrapper per kind of action space.

Outside, the agent sees one convention per kind; inside, the environment receives exactly its own
structure, dtype and bounds.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from rlkit_sac.errors import ConfigError

# Environments often write "unbounded" as the largest float instead of infinity.
_LARGEST_BOUND = float(np.finfo(np.float32).max)


class BoxActions(gym.ActionWrapper[Any, NDArray[np.float32], NDArray[np.floating[Any]]]):
    """Lets a float32 vector `[D]` act in an environment whose action space is a finite `Box`.

    A box of any shape is flattened in C order. With ``rescale`` the vector lies in [-1, 1] and is
    mapped linearly, -1 to ``low`` and 1 to ``high`` without rounding; otherwise it lies in the
    bounds of the environment. What leaves the bounds is clipped.

    Args:
        env: environment with a floating-point `Box` action space.
        rescale: whether the agent acts in [-1, 1].

    Raises:
        ConfigError: the box is empty, holds integers, or has an infinite or empty interval.

    >>> env = BoxActions(gym.make("Pendulum-v1"), rescale=True)
    >>> env.action_space
    Box(-1.0, 1.0, (1,), float32)
    >>> env.action(np.array([1.0], dtype=np.float32))
    array([2.], dtype=float32)
    """

    def __init__(self, env: gym.Env[Any, Any], *, rescale: bool) -> None:
        super().__init__(env)
        space = env.action_space
        if not isinstance(space, Box):
            raise TypeError(f"BoxActions needs a Box action space, got {space}")
        _check_box(space)
        self._space = space
        self._rescale = rescale
        self._low = space.low.astype(np.float64)
        self._high = space.high.astype(np.float64)
        size = space.low.size
        low = np.full(size, -1.0) if rescale else self._low.reshape(size)
        high = np.full(size, 1.0) if rescale else self._high.reshape(size)
        self.action_space = Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)

    def action(self, action: NDArray[np.float32]) -> NDArray[np.floating[Any]]:
        """Returns the environment's action `[*space.shape]` for the agent's `[D]`."""
        value = np.asarray(action, dtype=np.float64).reshape(self._space.shape)
        if self._rescale:
            # Two weighted ends: exact at -1 and 1, where low + (value + 1) * scale would round.
            value = 0.5 * (1.0 - value) * self._low + 0.5 * (1.0 + value) * self._high
        return np.clip(value, self._low, self._high).astype(self._space.dtype)


class DiscreteActions(gym.ActionWrapper[Any, np.int64, int]):
    """Lets an index 0 … n-1 act in an environment whose action space is `Discrete(n, start)`.

    Args:
        env: environment with a `Discrete` action space.

    >>> env = DiscreteActions(gym.make("CartPole-v1"))
    >>> env.action_space, env.action(np.int64(1))
    (Discrete(2), 1)
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        space = env.action_space
        if not isinstance(space, Discrete):
            raise TypeError(f"DiscreteActions needs a Discrete action space, got {space}")
        self._start = int(space.start)
        self.action_space = Discrete(int(space.n))

    def action(self, action: np.int64) -> int:
        """Returns the environment's own integer for the agent's index."""
        return int(action) + self._start


def adapt_actions(env: gym.Env[Any, Any], *, rescale: bool) -> gym.Env[Any, Any]:
    """Wraps an environment with the adapter of its kind of action space.

    Args:
        env: any Gymnasium environment.
        rescale: whether continuous actions are given in [-1, 1].

    Raises:
        ConfigError: no adapter exists for the space, or its bounds cannot be used.

    >>> adapt_actions(gym.make("CartPole-v1"), rescale=True).action_space
    Discrete(2)
    """
    space = env.action_space
    if isinstance(space, Box):
        return BoxActions(env, rescale=rescale)
    if isinstance(space, Discrete):
        return DiscreteActions(env)
    raise ConfigError(
        f"the action space {space} is not supported; supported are a floating-point Box with "
        "finite bounds and Discrete"
    )


def _check_box(space: Box) -> None:
    if not np.issubdtype(space.dtype, np.floating):
        raise ConfigError(
            f"the action space {space} holds {space.dtype} values; a Box of actions must be "
            "floating-point (whole numbers are a Discrete space)"
        )
    if space.low.size == 0:
        raise ConfigError(f"the action space {space} has no dimensions; it needs at least one")
    for name, bound in (("lower", space.low), ("upper", space.high)):
        for index in np.argwhere(~(np.abs(bound) < _LARGEST_BOUND)):
            raise ConfigError(
                f"the {name} bound of action dimension {index.tolist()} is "
                f"{bound[tuple(index)]}; every bound must be finite: give the environment an "
                "action space with finite bounds"
            )
    for index in np.argwhere(~(space.low < space.high)):
        low, high = space.low[tuple(index)], space.high[tuple(index)]
        raise ConfigError(
            f"the lower bound {low} of action dimension {index.tolist()} is not below its upper "
            f"bound {high}; remove the dimension or widen its bounds"
        )
