"""Observations and rewards as arrays, whatever the environment's own structure."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete, Space, flatten, flatten_space
from numpy.typing import NDArray

from rlkit_sac.envs.actions import leaves
from rlkit_sac.errors import ConfigError

# Above this, a `Discrete` beside a `Box` is taken for a counter, and becomes one number.
_MOST_CATEGORIES = 32


class ArrayObservation(gym.ObservationWrapper[Any, Any, Any]):
    """Turns any observation into ``{"observation": array}``.

    - `Box`: keeps its shape (a scalar becomes `[1]`) and becomes float32; uint8 with two or more
      dimensions is an image and stays uint8.
    - `Tuple` and `Dict`: a float32 vector of their parts in the order of the space (a `Dict` sorts
      its keys unless it was given an ordered mapping), each flattened: boxes in C order, each
      `Discrete(n)` as n one-hot entries. But where n is more than 32 and there is a `Box` beside
      it, anywhere in the structure, it counts something (as steps do in
      ``Tuple(Box, Discrete(200))``) and becomes one number, (value - start) / (n - 1), in [0, 1]:
      an environment that counts one too far gives 1.
    - `Discrete` alone and other spaces: a float32 vector, as ``gymnasium.spaces.flatten`` does.

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
        self._is_box = isinstance(self._space, Box)
        parts = [leaf for _, leaf, _ in leaves(self._space)]
        self._counts = any(isinstance(leaf, Box) for leaf in parts)
        boxes = [self._box_of(leaf) for leaf in parts]
        if not all(isinstance(box, Box) for box in boxes) or not boxes:
            raise ConfigError(
                f"the observation space {self._space} has no fixed size; supported are Box and "
                "what gymnasium.spaces.flatten turns into one (Dict, Tuple, Discrete, …)"
            )
        lows, highs = [box.low for box in boxes], [box.high for box in boxes]
        low = lows[0] if self._is_box else np.concatenate(lows)
        high = highs[0] if self._is_box else np.concatenate(highs)
        is_image = low.dtype == np.uint8 and low.ndim > 1
        self._dtype = np.dtype(np.uint8 if is_image else np.float32)
        self._shape = low.shape or (1,)
        with np.errstate(over="ignore"):  # a float64 bound beyond float32 means unbounded
            low = low.astype(self._dtype).reshape(self._shape)
            high = high.astype(self._dtype).reshape(self._shape)
        # TorchRL names a bare RGB image "pixels"; a dictionary keeps one key for all.
        self.observation_space = gym.spaces.Dict(
            {"observation": Box(low, high, dtype=self._dtype.type)}
        )

    def observation(self, observation: Any) -> dict[str, NDArray[Any]]:
        """Returns the observation as the only entry of a dictionary."""
        return {"observation": self.array(observation)}

    def array(self, observation: Any) -> NDArray[Any]:
        """Returns the observation as an array of the declared shape and dtype."""
        if not self._is_box:
            parts = leaves(self._space, observation)
            observation = np.concatenate([self._flatten(leaf, value) for _, leaf, value in parts])
        return np.array(observation, dtype=self._dtype).reshape(self._shape)

    def _is_count(self, leaf: Space[Any]) -> bool:
        return self._counts and isinstance(leaf, Discrete) and int(leaf.n) > _MOST_CATEGORIES

    def _box_of(self, leaf: Space[Any]) -> Any:
        if self._is_box:
            return leaf
        return Box(0.0, 1.0, (1,)) if self._is_count(leaf) else flatten_space(leaf)

    def _flatten(self, leaf: Space[Any], value: Any) -> Any:
        if isinstance(leaf, Discrete) and self._is_count(leaf):
            return [min(max((int(value) - int(leaf.start)) / (int(leaf.n) - 1), 0.0), 1.0)]
        return flatten(leaf, value)


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
