"""Observations and rewards as arrays, whatever the environment's own structure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import shorten
from typing import Any, TypeVar, cast

import gymnasium as gym
import numpy as np
from gymnasium import RewardWrapper, Wrapper
from gymnasium.spaces import Box, Discrete, Space, flatten, flatten_space
from numpy.typing import NDArray

from rlkit_sac.envs.spaces import Path, dict_space, leaves, path_str
from rlkit_sac.errors import ConfigError

T = TypeVar("T")
#: The vector that critics read, where it is another than the policy's.
CRITIC_OBSERVATION = "critic_observation"

# Above this, a `Discrete` beside a `Box` is taken for a counter, and becomes one number.
_MOST_CATEGORIES = 32


class ObservationConversion:
    """Converts a task's observation to arrays: images, and a vector of all else.

    - An image is a `Box` of uint8 or bool with two or more dimensions, and stays as it is: alone as
      ``observation``, within a `Tuple` or `Dict` as an entry for each, ``image_`` and its place
      there, such as ``image_camera`` or ``image_arm_0``.
    - Another `Box` keeps its shape (a scalar becomes `[1]`) and becomes float32, whatever type the
      space declares.
    - `Tuple` and `Dict`: ``observation``, a float32 vector of their other parts in the order of the
      space (a `Dict` sorts its keys unless it was given an ordered mapping), each flattened: boxes
      in C order, each `Discrete(n)` as n one-hot entries. But where n is more than 32 and there is
      a `Box` beside it, anywhere in the structure, it counts something (as steps do in
      ``Tuple(Box, Discrete(200))``) and becomes one number, (value - start) / (n - 1), in [0, 1]:
      an environment that counts one too far gives 1. Without such parts there is no vector.
    - `Discrete` alone and other spaces: a float32 vector, as ``gymnasium.spaces.flatten`` does.

    Every array is a copy, so environments may reuse their buffers. Each part of an observation has
    the shape that the space declares, but for axes of length 1.

    Args:
        space: the observation space of the task.
        indices: the entries of the vector that are kept, in this order. Default: all.
        vector_key: the entry of the vector. Default: ``observation``.

    Attributes:
        keys: for each part of the space, the entry if the part is an image, else ``None``.
        vector_shape: shape of ``observation`` before ``indices`` are taken, if it is no image.

    Raises:
        ConfigError: the observations cannot be flattened to a fixed size, or are no vectors with
            the entries ``indices``.

    >>> convert = ObservationConversion(gym.spaces.Dict(at=Box(-1, 1, (2,)), door=Discrete(2)))
    >>> convert({"at": np.zeros(2), "door": 1})
    {'observation': array([0., 0., 0., 1.], dtype=float32)}
    """

    def __init__(
        self,
        space: Space[Any],
        *,
        indices: Sequence[int] | None = None,
        vector_key: str = "observation",
    ) -> None:
        self.space, self.vector_key = space, vector_key
        self._is_box = isinstance(space, Box)
        parts = [(path, leaf) for path, leaf, _ in leaves(space)]
        self._counts = any(isinstance(leaf, Box) for _, leaf in parts)
        self.keys = [self._image_key(path) if is_image(leaf) else None for path, leaf in parts]
        images = zip(self.keys, parts, strict=True)
        self._images = {key: leaf for key, (_, leaf) in images if key is not None}
        if len(self._images) < len(parts) - self.keys.count(None):
            raise ConfigError(
                f"two images of the observation space {space} would have the same entry: rename "
                "their keys, since a key and its parts are joined by '_'"
            )
        self._boxes: list[Any] = [
            Box(0.0, 1.0, (1,)) if self.is_counter(leaf) else flatten_space(leaf)
            for _, leaf in parts
            if not is_image(leaf)
        ]
        if not all(isinstance(box, Box) for box in self._boxes) or not parts:
            raise ConfigError(
                f"the observation space {space} is not one that gymnasium.spaces.flatten turns "
                "into a Box: wrap the environment in gymnasium.wrappers.TransformObservation"
            )
        length = sum(box.low.size for box in self._boxes)
        self.vector_shape = (space.shape or (1,)) if self._is_box else (length,)
        self.indices = None if indices is None else _check_indices(indices, self.vector_shape)

    def __call__(self, observation: Any) -> dict[str, NDArray[Any]]:
        """Returns arrays of the shapes and dtypes of :meth:`agent_space`, copies.

        Raises:
            TypeError, ValueError: NumPy's, for another number of values or what are not numbers.
        """
        entries: dict[str, NDArray[Any]] = {}
        if self._is_box and not self._images:
            numbers = np.asarray(observation)
        else:
            vector = []
            for key, (path, leaf, value) in zip(
                self.keys, leaves(self.space, observation), strict=True
            ):
                if key is None:
                    vector.append(self._flatten(path, leaf, value))
                    continue
                image = copy_image(cast(Box, leaf), value)
                entries[key] = fit_shape(image, leaf.shape or (), path)
            if not vector:
                return entries
            numbers = np.concatenate(vector)
        array = fit_shape(numbers.astype(np.float32, casting="same_kind"), self.vector_shape)
        entries[self.vector_key] = array if self.indices is None else array.take(self.indices, -1)
        return entries

    def agent_space(self) -> gym.spaces.Dict:
        """Return the space of each of the agent's arrays, images first."""
        if not self._boxes:
            return gym.spaces.Dict(self._images)
        with np.errstate(over="ignore"):  # a float64 bound beyond float32 means unbounded
            low, high = (
                np.concatenate([np.ravel(bound) for bound in bounds])
                .astype(np.float32)
                .reshape(self.vector_shape)
                for bounds in zip(*((box.low, box.high) for box in self._boxes), strict=True)
            )
        if self.indices is not None:
            low, high = low[self.indices], high[self.indices]
        return gym.spaces.Dict(self._images | {self.vector_key: Box(low, high, dtype=np.float32)})

    def columns(self, name: str) -> list[int]:
        """Return the columns of the vector that hold a part of a `Dict`, in its order.

        Raises:
            ConfigError: if the vector lacks the part, or a number of it.
        """
        parts = [path for path, leaf, _ in leaves(self.space) if not is_image(leaf)]
        sizes = zip(parts, self._boxes, strict=True)
        owners = [path[:1] == (name,) for path, box in sizes for _ in range(box.low.size)]
        kept = list(range(len(owners))) if self.indices is None else list(self.indices)
        wanted = [column for column, is_owned in enumerate(owners) if is_owned]
        if not wanted or not set(wanted) <= set(kept):
            text = "see env.observation_indices, env.observation_keys and network.critic_keys"
            raise ConfigError(
                f"{self.vector_key} needs the whole part {name!r} of the task: {text}"
            )
        return [kept.index(column) for column in wanted]

    def layout(self) -> list[dict[str, Any]]:
        """Return the agent's arrays as JSON, see :func:`~rlkit_sac.envs.observation_layout`."""
        found: list[dict[str, Any]] = []
        for key, box in self.agent_space().items():
            assert isinstance(box, Box)
            shape = list(box.shape)
            found.append({"key": key, "shape": shape})
            if is_image(box):
                first = len(shape) == 2 or _channels_first(*shape[-3:])
                found[-1] |= {
                    "scale": int(box.high.max()),
                    "channels": "first" if first else "last",
                }
        return found

    def is_counter(self, leaf: Space[Any]) -> bool:
        """Return whether a part of the space becomes one number, and not a one-hot vector."""
        return self._counts and isinstance(leaf, Discrete) and int(leaf.n) > _MOST_CATEGORIES

    def _image_key(self, path: Path) -> str:
        return "_".join(["image", *map(str, path)]) if path else self.vector_key

    def _flatten(self, path: Path, leaf: Space[Any], value: Any) -> Any:
        if isinstance(leaf, Discrete) and self.is_counter(leaf):
            count = value - int(leaf.start)
            if 0 <= count <= int(leaf.n) and count == int(count):  # one too far counts as the last
                return [min(count / (int(leaf.n) - 1), 1.0)]
        if isinstance(leaf, Box):  # Gymnasium would cast it to the declared type
            return fit_shape(np.asarray(value), leaf.shape or (), path).ravel()
        if not leaf.contains(value):
            raise ValueError(f"the observation{path_str(path)} has {value!r}, wanted one of {leaf}")
        return flatten(leaf, value)


def select_parts(space: Space[Any], keys: Sequence[str] | None) -> Space[Any]:
    """Return the parts of a `Dict` with these keys, in their order; without keys the space itself.

    Raises:
        ConfigError: for a key that there is not.

    >>> select_parts(gym.spaces.Dict(at=Discrete(2), door=Discrete(3)), ["door"])
    Dict('door': Discrete(3))
    """
    if keys is None:
        return space
    parts = space.spaces if isinstance(space, gym.spaces.Dict) else {}
    return dict_space(select_entries(parts, keys))


def select_entries(observed: Mapping[str, T], keys: Iterable[str]) -> dict[str, T]:
    """Return the observed parts with these keys; refuse no keys, and unknown ones."""
    chosen = list(keys)
    if not chosen or not observed.keys() >= set(chosen):
        text = f"is {chosen}, but what is observed has the parts {list(observed)}"
        raise ConfigError(f"env.observation_keys or network.critic_keys {text}")
    return {key: observed[key] for key in chosen}


def is_image(leaf: Space[Any]) -> bool:
    """Return whether a part of a space keeps its type and shape, and is no part of the vector.

    >>> is_image(Box(0, 255, (84, 84, 3), np.uint8)), is_image(Box(0, 255, (128,), np.uint8))
    (True, False)
    """
    return isinstance(leaf, Box) and len(leaf.shape) > 1 and leaf.dtype in (np.uint8, np.bool_)


def copy_image(leaf: Box, value: Any) -> NDArray[Any]:
    """Return a copy of an image in the type of its space.

    Raises:
        TypeError: for numbers that are no integers.
        ValueError: for those beyond the bounds of the space.

    >>> copy_image(Box(0, 255, (1, 2), np.uint8), np.array([[7, 300]]))
    Traceback (most recent call last):
    ValueError: an image has numbers from 7 to 300, wanted 0 to 255
    """
    array = np.asarray(value)
    low, high = leaf.low.flat[0], leaf.high.flat[0]
    full = leaf.dtype == np.bool_ or (low, high) == (0, 255)
    if not (full and array.dtype == leaf.dtype) and array.size:
        least, most = array.min(), array.max()
        if least < low or most > high:
            raise ValueError(f"an image has numbers from {least} to {most}, wanted {low} to {high}")
    return array.astype(leaf.dtype, casting="unsafe" if array.dtype.kind in "biu" else "same_kind")


def fit_shape(array: NDArray[Any], shape: tuple[int, ...], path: Path | None = ()) -> NDArray[Any]:
    """Return an array of a shape that differs in axes of length 1 at most.

    Args:
        array: an array of an observation, or a reward.
        shape: the shape that the space declares.
        path: the path of the part in the observation, for messages; ``None`` for a reward.

    Raises:
        ValueError: for an array of any other shape.

    >>> fit_shape(np.zeros((3, 1)), (3,)).shape
    (3,)
    >>> fit_shape(np.zeros((4, 4, 3)), (3, 4, 4))
    Traceback (most recent call last):
    ValueError: the observation has the shape [4, 4, 3], wanted [3, 4, 4]
    """
    if array.shape == shape:
        return array
    if not same_but_ones(array.shape, shape):
        what = "the reward" if path is None else f"the observation{path_str(path)}"
        advice = " of reward_space, which a wrapper may declare" if path is None else ""
        raise ValueError(f"{what} has the shape {list(array.shape)}, wanted {list(shape)}{advice}")
    return array.reshape(shape)


def same_but_ones(shape: Sequence[int], other_shape: Sequence[int]) -> bool:
    """Return whether two shapes are the same without their axes of length 1.

    >>> same_but_ones((3, 1), (3,)), same_but_ones((3, 1), (1, 2))
    (True, False)
    """
    return [n for n in shape if n != 1] == [n for n in other_shape if n != 1]


def _channels_first(first: int, middle: int, last: int) -> bool:
    """Return whether the other two axes are equal; if that is not decisive, whether longer."""
    equal_after, equal_before = middle == last, first == middle
    return equal_after if equal_after != equal_before else first < last


def _check_indices(indices: Sequence[int], shape: tuple[int, ...]) -> list[int]:
    kept = np.ravel(indices).tolist()
    text = f"observation_indices is {shorten(str(kept), 300)}, but the observation has"
    if len(shape) > 1 or not shape[0]:
        raise ConfigError(f"{text} the shape {list(shape)}: leave it out, it is for vectors")
    valid = {index for index in kept if type(index) is int and 0 <= index < shape[0]}
    if not valid or len(valid) != len(kept):
        raise ConfigError(
            f"{text} {shape[0]} entries: list at least one of 0 to {shape[0] - 1}, each once"
        )
    return kept


class RewardConversion:
    """Converts a reward to a float32 array `[M]`: one number, or one for each objective.

    M is the length of the environment's ``reward_space``, which MO-Gymnasium declares; without one
    it is 1.

    Args:
        env: any Gymnasium environment.

    Attributes:
        shape: shape of the array.

    >>> RewardConversion(gym.make("Pendulum-v1"))(0.5)
    array([0.5], dtype=float32)
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        layer, declared = env, getattr(env, "reward_space", None)
        # What lies under a RewardWrapper declares another reward than that which is returned.
        while declared is None and isinstance(layer, Wrapper):
            if isinstance(layer, RewardWrapper) or type(layer).__name__ == "LinearReward":
                break
            layer = layer.env
            declared = getattr(layer, "reward_space", None)
        self.shape = (1,) if declared is None else declared.shape or (1,)

    def __call__(self, reward: Any) -> NDArray[np.float32]:
        """Returns the reward as an array of the declared shape.

        Raises:
            TypeError, ValueError: NumPy's for a reward of another length than the declared one, or
                what are not numbers.
        """
        if isinstance(reward, float) and self.shape == (1,):  # the usual ones, in less time
            return np.array([reward], np.float32)
        array = fit_shape(np.asarray(reward), self.shape, None)
        return array.astype(np.float32, casting="same_kind")
