"""Actions of the agent, converted to the structure of the environment."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, islice, pairwise
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, Space, Tuple
from numpy.typing import NDArray

from rlkit_sac.action_bounds import check_bounds
from rlkit_sac.errors import ConfigError

_SUPPORTED = (
    "supported are a floating-point Box with finite bounds, Discrete, and any Tuple or Dict of "
    "these with at most one Discrete in it"
)

Path = tuple[int | str, ...]


class AdaptedActions(gym.ActionWrapper[Any, Any, Any]):
    """Lets the agent act in one of three forms, whatever the environment's own structure.

    - Boxes alone: a float32 vector `[D]`.
    - A `Discrete` alone: an index 0 … K-1, also where the space starts elsewhere.
    - Both: ``{"action": {"discrete": index, "continuous": vector}}``, which TorchRL turns into the
      nested keys ``("action", "discrete")`` and ``("action", "continuous")``.

    The vector holds all boxes, flattened in C order and concatenated in the order of the space: a
    `Tuple` by index, a `Dict` as its ``spaces`` iterate (by sorted name, unless an ordered mapping
    was given). The environment receives tuples, dictionaries, Python integers and arrays of each
    box's own shape and dtype.

    With ``rescale`` the vector lies in [-1, 1] and is mapped linearly, -1 to each lower and 1 to
    each upper bound without rounding; otherwise it lies in the bounds of the environment. Values
    outside of the bounds are clipped.

    Args:
        env: environment with an action space of `Box`, `Discrete`, or a `Tuple` or `Dict` of these.
        rescale: whether the agent's vector lies in [-1, 1].

    Attributes:
        parameter_mask: bool `[K, D]`, for a `Tuple` of ``Discrete(K)`` and K boxes, or of
            ``Discrete(K)`` and a `Tuple` of K boxes. Box k is the parameter of choice k, and
            ``mask[k, d]`` is true if dimension d belongs to it. None if each choice uses each
            dimension.

    Raises:
        ConfigError: the space holds another kind of space, several `Discrete`, no dimension at all,
            or a box of integers, with an infinite bound, or with an empty interval.

    >>> env = AdaptedActions(gym.make("rlkit_sac/Platform-v0"), rescale=True)
    >>> env.action_space["action"]["continuous"]
    Box(-1.0, 1.0, (3,), float32)
    >>> env.parameter_mask[1]
    array([False,  True, False])
    >>> env.action({"action": {"discrete": 1, "continuous": np.array([1.0, -1.0, 0.0])}})[1]
    (array([30.], dtype=float32), array([0.], dtype=float32), array([215.], dtype=float32))
    """

    def __init__(self, env: gym.Env[Any, Any], *, rescale: bool) -> None:
        super().__init__(env)
        self.action_conversion = ActionConversion(env.action_space, rescale=rescale)
        self.parameter_mask = _parameter_mask(env.action_space)
        self.action_space = self.action_conversion.agent_space()

    def action(self, action: Any) -> Any:
        """Returns the environment's action for the agent's."""
        return self.action_conversion(action)


class ActionConversion:
    """From the agent's action to that of a task, as :class:`AdaptedActions` describes it.

    Args:
        space: the action space of the task.
        rescale: whether the agent's vector lies in [-1, 1].

    Raises:
        ConfigError: as `AdaptedActions`.

    >>> convert = ActionConversion(Tuple([Discrete(2, start=5), Box(0, 8, (1,))]), rescale=True)
    >>> convert({"action": {"discrete": 1, "continuous": np.array([0.0])}})
    (6, array([4.], dtype=float32))
    >>> batch = {"discrete": np.array([1, 0]), "continuous": np.array([[0.0], [1.0]])}
    >>> convert({"action": batch})[0]
    array([6, 5])
    """

    def __init__(self, space: Space[Any], *, rescale: bool) -> None:
        boxes, self._num_choices = _boxes_and_choices(space)
        self.space, self.rescale = space, rescale
        ends = accumulate((box.low.size for box in boxes), initial=0)
        self._boxes = [
            (i, j, box.shape, box.dtype) for (i, j), box in zip(pairwise(ends), boxes, strict=True)
        ]
        kinds = {(box.shape, box.dtype) for box in boxes}
        # Rows of one array have the type of an array, unlike its numbers.
        self._are_rows = len(boxes) > 1 and len(kinds) == 1 and boxes[0].shape != ()
        self._low = _joined([box.low for box in boxes])
        self._high = _joined([box.high for box in boxes])
        self._half_low, self._half_high = 0.5 * self._low, 0.5 * self._high

    def __call__(self, action: Any) -> Any:
        """Returns the action of the task.

        Args:
            action: the agent's, or N of them in arrays with N in front.

        Returns:
            One action, or N in the structure of the space, as Gymnasium's vector environments take
            them: each leaf an array with N in front.
        """
        choice, values = 0, action
        if isinstance(action, dict):
            choice, values = action["action"]["discrete"], action["action"]["continuous"]
        elif self._num_choices is not None:
            choice, values = action, self._low
        return _build(self.space, choice, self._split(self._in_bounds(values)))

    def agent_space(self) -> Space[Any]:
        """The space of the agent's action."""
        if not len(self._low):
            return Discrete(self._num_choices or 0)
        low = np.full_like(self._low, -1.0) if self.rescale else self._low
        high = np.full_like(self._high, 1.0) if self.rescale else self._high
        continuous = Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)
        if self._num_choices is None:
            return continuous
        both = {"discrete": Discrete(self._num_choices), "continuous": continuous}
        return Dict({"action": Dict(both)})

    def _in_bounds(self, values: Any) -> NDArray[np.float64]:
        value = np.asarray(values, dtype=np.float64)
        if value.shape[-1:] != self._low.shape:
            raise ValueError(f"the action has the shape {value.shape}, wanted {self._low.shape}")
        if self.rescale:
            # Two weighted ends: exact at -1 and 1, where low + (value + 1) * scale would round.
            value = (1.0 - value) * self._half_low + (1.0 + value) * self._half_high
        return np.minimum(np.maximum(value, self._low), self._high)  # faster than `numpy.clip`

    def _split(self, values: NDArray[np.float64]) -> Iterator[NDArray[Any]]:
        """The array of each box."""
        batch = values.shape[:-1]
        if self._are_rows and not batch:  # at once: there may be a thousand
            _, _, shape, dtype = self._boxes[0]
            return iter(values.reshape(len(self._boxes), *shape).astype(dtype))
        return (
            values[..., i:j].reshape(batch + shape).astype(dtype)
            for i, j, shape, dtype in self._boxes
        )


def leaves(
    space: Space[Any], value: Any = None, path: Path = ()
) -> Iterator[tuple[Path, Space[Any], Any]]:
    """The parts of a space that are neither `Tuple` nor `Dict`, in the order of the space.

    Args:
        space: any space.
        value: an observation of it, or None.
        path: of the space in another one.

    Yields:
        Path, space and value (or None) of each part.

    >>> from gymnasium.spaces import Discrete
    >>> space = Tuple([Discrete(2), Dict(speed=Discrete(3))])
    >>> list(leaves(space, (1, {"speed": 2})))
    [((0,), Discrete(2), 1), ((1, 'speed'), Discrete(3), 2)]
    """
    if isinstance(space, Tuple):
        parts: dict[Any, Space[Any]] = dict(enumerate(space.spaces))
    elif isinstance(space, Dict):
        parts = space.spaces
    else:
        yield path, space, value
        return
    for key, part in parts.items():
        yield from leaves(part, None if value is None else value[key], (*path, key))


def at(path: Path) -> str:
    """Where in a space a part is, as Python would index it.

    >>> at((1, "speed"))
    "[1]['speed']"
    """
    return "".join(f"[{key!r}]" for key in path)


def _boxes_and_choices(space: Space[Any]) -> tuple[list[Box], int | None]:
    """The boxes of an action space, and the size of its `Discrete`, None without one."""
    boxes: list[Box] = []
    choices: dict[str, Discrete[Any]] = {}
    for keys, leaf, _ in leaves(space):
        path = at(keys)
        if isinstance(leaf, Box):
            _check_box(leaf, path)
            boxes.append(leaf)
        elif isinstance(leaf, Discrete):
            choices[path] = leaf
        else:
            where = f" holds {leaf} at {path}, which" if path else ""
            raise ConfigError(f"the action space {space}{where} is not supported; {_SUPPORTED}")
    sizes = [int(choice.n) for choice in choices.values()]
    if len(sizes) > 1:
        raise ConfigError(
            f"the action space {space} holds several Discrete, at {' and '.join(choices)}; "
            f"{_SUPPORTED}: let the environment take one Discrete({np.prod(sizes)}) of all "
            "combinations"
        )
    if not any(box.low.size for box in boxes) and not choices:
        raise ConfigError(f"the action space {space} has no dimensions; it needs at least one")
    return boxes, sizes[0] if sizes else None


def _build(space: Space[Any], choice: Any, boxes: Iterator[NDArray[Any]]) -> Any:
    if isinstance(space, Box):
        return next(boxes)
    if isinstance(space, Discrete):
        return (choice if np.ndim(choice) else int(choice)) + int(space.start)
    if isinstance(space, Tuple):
        if set(map(type, space.spaces)) == {Box}:
            return tuple(islice(boxes, len(space.spaces)))
        return tuple(_build(part, choice, boxes) for part in space.spaces)
    assert isinstance(space, Dict)
    return {name: _build(part, choice, boxes) for name, part in space.spaces.items()}


def _joined(bounds: list[NDArray[Any]]) -> NDArray[np.float64]:
    return np.concatenate([np.empty(0), *(np.ravel(bound) for bound in bounds)])


def _parameter_mask(space: Space[Any]) -> NDArray[np.bool_] | None:
    if not isinstance(space, Tuple) or not isinstance(space.spaces[0], Discrete):
        return None
    parts = space.spaces[1:]
    if len(parts) == 1 and isinstance(parts[0], Tuple):
        parts = parts[0].spaces
    sizes = [part.low.size for part in parts if isinstance(part, Box)]
    choices = np.arange(int(space.spaces[0].n))
    if len(sizes) != len(parts) or len(parts) != len(choices):
        return None
    mask: NDArray[np.bool_] = np.repeat(choices, sizes) == choices[:, None]
    return None if mask.all() else mask


def _check_box(space: Box, path: str) -> None:
    where = f" of the Box at {path}" if path else ""
    if not np.issubdtype(space.dtype, np.floating):
        raise ConfigError(
            f"the action space {space}{f' at {path}' if path else ''} holds {space.dtype} values; "
            "a Box of actions must be floating-point (whole numbers are a Discrete space)"
        )
    low, high = (torch.from_numpy(bound.astype(np.float64)) for bound in (space.low, space.high))
    check_bounds(low, high, where)
