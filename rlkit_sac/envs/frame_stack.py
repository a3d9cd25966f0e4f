"""Stacks of the last images of a task."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Space

from rlkit_sac.envs.observations import is_image
from rlkit_sac.envs.spaces import leaves, map_leaves, map_space
from rlkit_sac.errors import ConfigError


class FrameStack(gym.Wrapper[Any, Any, Any, Any]):
    """Stacks the last frames of each image of an observation, and leaves all else as it is.

    An image ``[H, W]`` becomes ``[K, H, W]``, one of ``[H, W, C]`` becomes ``[K, H, W, C]``, the
    newest frame last. Before the first frames of an episode comes its very first one. Observations
    that are one image are those of Gymnasium's ``FrameStackObservation``.

    Args:
        env: any Gymnasium environment with images, which are boxes of uint8 or bool with two or
            more dimensions, anywhere in its observations.
        count: frames K of a stack.

    Raises:
        ConfigError: the observation has no image.

    >>> from gymnasium.wrappers import AddRenderObservation
    >>> task = AddRenderObservation(gym.make("rlkit_sac/Platform-v0", render_mode="rgb_array"))
    >>> FrameStack(task, 4).reset(seed=0)[0].shape[0]
    4
    """

    def __init__(self, env: gym.Env[Any, Any], count: int) -> None:
        super().__init__(env)
        if not any(is_image(leaf) for _, leaf, _ in leaves(env.observation_space)):
            raise ConfigError(
                f"frame_stack is {count}, but the observation has no image (a Box of uint8 or bool "
                "with two or more dimensions): set it to 1; network.memory is for vectors"
            )
        self._count = count
        self._stack: Any = None
        self.observation_space = map_space(env.observation_space, self._stacked_space)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Resets the environment."""
        observation, info = self.env.reset(**options)
        self._stack = map_leaves(self.env.observation_space, self._initial_stack, observation)
        return self._stack, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes one step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._stack = map_leaves(self.env.observation_space, _add_frame, observation, self._stack)
        return self._stack, reward, terminated, truncated, info

    def _initial_stack(self, leaf: Space[Any], value: Any) -> Any:
        return np.repeat(np.asarray(value)[None], self._count, 0) if is_image(leaf) else value

    def _stacked_space(self, leaf: Space[Any]) -> Space[Any]:
        if not isinstance(leaf, Box) or not is_image(leaf):
            return leaf
        low, high = (np.repeat(bound[None], self._count, 0) for bound in (leaf.low, leaf.high))
        dtype: Any = leaf.dtype
        return Box(low, high, dtype=dtype)


def _add_frame(leaf: Space[Any], value: Any, stack: Any) -> Any:
    return np.concatenate([stack[1:], np.asarray(value)[None]]) if is_image(leaf) else value
