"""One array per observation, whatever the environment's own structure."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, flatten, flatten_space
from numpy.typing import NDArray

from rlkit_sac.errors import ConfigError


class ArrayObservation(gym.ObservationWrapper[Any, Any, Any]):
    """Turns any observation into ``{"observation": array}``.

    - `Box`: keeps its shape (a scalar becomes `[1]`) and becomes float32; uint8 with two or more
      dimensions is an image and stays uint8.
    - `Dict`, `Tuple`, `Discrete` and other spaces: flattened to a float32 vector by
      ``gymnasium.spaces.flatten``: the parts in the order of the space (a `Dict` sorts its keys
      unless it was given an ordered mapping), boxes in C order, each `Discrete(n)` as n one-hot
      entries.

    Every array is a copy, so environments may reuse their buffers.

    Args:
        env: any Gymnasium environment.

    Raises:
        ConfigError: the observations cannot be flattened to a fixed size.

    >>> env = ArrayObservation(gym.make("FrozenLake-v1"))
    >>> env.observation_space["observation"]
    Box(0.0, 1.0, (16,), float32)
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._space = env.observation_space
        self._flatten = not isinstance(self._space, Box)
        box = flatten_space(self._space) if self._flatten else self._space
        if not isinstance(box, Box):
            raise ConfigError(
                f"the observation space {self._space} has no fixed size; supported are Box and "
                "what gymnasium.spaces.flatten turns into one (Dict, Tuple, Discrete, …)"
            )
        is_image = box.dtype == np.uint8 and len(box.shape) > 1
        self._dtype = np.dtype(np.uint8 if is_image else np.float32)
        self._shape = box.shape or (1,)
        with np.errstate(over="ignore"):  # a float64 bound beyond float32 means unbounded
            low = box.low.astype(self._dtype).reshape(self._shape)
            high = box.high.astype(self._dtype).reshape(self._shape)
        # TorchRL names a bare RGB image "pixels"; a dictionary keeps one key for all.
        self.observation_space = gym.spaces.Dict(
            {"observation": Box(low, high, dtype=self._dtype.type)}
        )

    def observation(self, observation: Any) -> dict[str, NDArray[Any]]:
        """Returns the observation as an array of the declared shape and dtype."""
        if self._flatten:
            observation = flatten(self._space, observation)
        return {"observation": np.array(observation, dtype=self._dtype).reshape(self._shape)}
