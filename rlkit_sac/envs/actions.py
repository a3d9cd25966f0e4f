"""Actions of the agent, converted to the structure of the environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from numpy.typing import NDArray

from rlkit_sac.envs.action_layout import ActionLayout

_NO_VALUES = np.empty(0)


class AdaptedActions(gym.ActionWrapper[Any, Any, Any]):
    """Lets the agent act in one of three forms, whatever the environment's own structure.

    - Boxes alone: a float32 vector `[D]`.
    - A `Discrete` alone: an index 0 … K-1, also where the space starts elsewhere.
    - Both: ``{"action": {"discrete": index, "continuous": vector}}``, which TorchRL turns into the
      nested keys ``("action", "discrete")`` and ``("action", "continuous")``.

    The vector holds all boxes, see :class:`~rlkit_sac.envs.action_layout.ActionLayout`. With
    ``rescale`` it lies in [-1, 1] and is mapped linearly, -1 to each lower and 1 to each upper
    bound without rounding; otherwise it lies in the bounds of the environment. Values outside
    of the bounds are clipped.

    Args:
        env: environment with an action space of `Box`, `Discrete`, or a `Tuple` or `Dict` of these.
        rescale: whether the agent's vector lies in [-1, 1].

    Attributes:
        parameter_mask: bool `[K, D]`, the dimensions that belong to each choice of a parameterized
            action space; None where each choice uses each dimension.

    Raises:
        ConfigError: the space is not supported, or a bound is infinite or equal to the other.

    >>> env = AdaptedActions(gym.make("Pendulum-v1"), rescale=True)
    >>> env.action_space
    Box(-1.0, 1.0, (1,), float32)
    >>> env.action(np.array([1.0], dtype=np.float32))
    array([2.], dtype=float32)
    """

    def __init__(self, env: gym.Env[Any, Any], *, rescale: bool) -> None:
        super().__init__(env)
        self._layout = ActionLayout.of(env.action_space)
        self._rescale = rescale
        self._half_low, self._half_high = 0.5 * self._layout.low, 0.5 * self._layout.high
        self.action_space = self._agent_space()

    @property
    def parameter_mask(self) -> NDArray[np.bool_] | None:
        """Which continuous dimensions belong to which discrete choice."""
        return self._layout.parameter_mask

    def action(self, action: Any) -> Any:
        """Returns the environment's action for the agent's."""
        if isinstance(action, dict):
            parts = action["action"]
            return self._layout.restore(
                int(parts["discrete"]), self._in_bounds(parts["continuous"])
            )
        if self._layout.num_choices is not None:
            return self._layout.restore(int(action), _NO_VALUES)
        return self._layout.restore(0, self._in_bounds(action))

    def _agent_space(self) -> gym.Space[Any]:
        layout = self._layout
        if not len(layout.low):
            return Discrete(layout.num_choices or 0)
        low = np.full_like(layout.low, -1.0) if self._rescale else layout.low
        high = np.full_like(layout.high, 1.0) if self._rescale else layout.high
        continuous = Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)
        if layout.num_choices is None:
            return continuous
        both = {"discrete": Discrete(layout.num_choices), "continuous": continuous}
        return Dict({"action": Dict(both)})

    def _in_bounds(self, values: Any) -> NDArray[np.float64]:
        low, high = self._layout.low, self._layout.high
        value = np.asarray(values, dtype=np.float64)
        if self._rescale:
            # Two weighted ends: exact at -1 and 1, where low + (value + 1) * scale would round.
            value = (1.0 - value) * self._half_low + (1.0 + value) * self._half_high
        return np.minimum(np.maximum(value, low), high)  # clips, faster than `numpy.clip`
