"""Actions of the agent, converted to the structure of the environment."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import accumulate, islice, pairwise
from math import prod
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, Space, Tuple
from numpy.typing import NDArray
from tensordict import NestedKey

from rlkit_sac.envs.spaces import choice_ranges, is_choice, leaves, map_space, path_str
from rlkit_sac.errors import ConfigError, check_bounds

#: Most combinations of several choices: a critic has an output for each.
MOST_COMBINATIONS = 4096
# Symmetric bounds, from which on a tanh policy explores next to nothing of what matters.
_WIDE = 100.0

_SUPPORTED = (
    "supported are a Box with finite bounds, Discrete, MultiDiscrete, MultiBinary, and any Tuple "
    "or Dict of these: wrap the environment in gymnasium.wrappers.TransformAction"
)


class ActionConversion:
    """Converts the agent's action to the action of a task, of any structure.

    The agent acts in one of three forms:

    - Boxes alone: a float32 vector `[D]`.
    - Choices alone: an index 0 … K-1, also where the space starts elsewhere.
    - Both: ``{"action": {"discrete": index, "continuous": vector}}``, which TorchRL turns into the
      nested keys ``("action", "discrete")`` and ``("action", "continuous")``.

    Choices are `Discrete`, `MultiDiscrete`, `MultiBinary` and boxes of integers. Several are one
    choice among their K combinations, at most :data:`MOST_COMBINATIONS`, counted in the order of
    the space, the last choice fastest.

    The vector holds all other boxes, flattened in C order and concatenated in the order of the
    space: a `Tuple` by index, a `Dict` as its ``spaces`` iterate (by sorted name, unless an ordered
    mapping was given). The environment receives tuples, dictionaries, Python integers and arrays of
    each box's own shape and dtype.

    With ``rescale`` the vector lies in [-1, 1] and is mapped linearly, -1 to each lower and 1 to
    each upper bound without rounding; otherwise it lies in the bounds of the environment. Values
    outside of the bounds are clipped.

    Args:
        space: the action space of the task: boxes and choices, in any nest of `Tuple` and `Dict`.
        rescale: if true, the agent's vector lies in [-1, 1].

    Raises:
        ConfigError: the space holds another kind of space, no dimension at all, too many
            combinations, or a box with an infinite bound or an empty interval.

    >>> convert = ActionConversion(Tuple([Discrete(2, start=5), Box(0, 8, (1,))]), rescale=True)
    >>> convert({"action": {"discrete": 1, "continuous": np.array([0.0])}})
    (6, array([4.], dtype=float32))
    >>> batch = {"discrete": np.array([1, 0]), "continuous": np.array([[0.0], [1.0]])}
    >>> convert({"action": batch})[0]
    array([6, 5])
    >>> from gymnasium.spaces import MultiDiscrete
    >>> convert = ActionConversion(MultiDiscrete([3, 4]), rescale=True)
    >>> convert(7)
    array([1, 3])
    """

    def __init__(self, space: Space[Any], *, rescale: bool) -> None:
        self.space, self.rescale = space, rescale
        boxes, self.choices = _boxes_and_choices(space)
        values = [choice_ranges(leaf) for leaf in self.choices]
        self._sizes = [len(counts) for counts, _ in values]
        self.counts = np.array([n for counts, _ in values for n in counts], np.int64)
        self.starts = np.array([n for _, starts in values for n in starts], np.int64)
        #: How far apart two values of each choice are among the combinations.
        self.strides = np.cumprod([1, *self.counts[:0:-1]])[: len(self.counts)][::-1]
        self.num_choices = prod(self.counts.tolist()) if self.choices else None
        self._is_discrete = [type(leaf) for leaf in self.choices] == [Discrete]
        self._all_continuous = Box not in map(type, self.choices)  # all boxes are
        ends = accumulate((box.low.size for box in boxes), initial=0)
        self._boxes = [
            (i, j, box.shape, box.dtype) for (i, j), box in zip(pairwise(ends), boxes, strict=True)
        ]
        kinds = {(box.shape, box.dtype) for box in boxes}
        # Rows of one array have the type of an array, unlike its numbers.
        self._are_rows = len(boxes) > 1 and len(kinds) == 1 and boxes[0].shape != ()
        self.low = _flatten_bounds([box.low for box in boxes])
        self.high = _flatten_bounds([box.high for box in boxes])
        self._half_low, self._half_high = 0.5 * self.low, 0.5 * self.high

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
        elif self.num_choices is not None:
            choice, values = action, self.low
        boxes = self._split_boxes(self._rescale_and_clip(values))
        return self._build_action(self.space, self._decode_choice(choice), boxes)

    def agent_action(self, action: Any) -> dict[NestedKey, NDArray[Any]]:
        """Return the agent's action that becomes an action of the task, by entry.

        Raises:
            ValueError: for an action of another structure or shape, or beyond the bounds.

        >>> convert = ActionConversion(Tuple([Discrete(2, start=5), Box(0, 8, (1,))]), rescale=True)
        >>> convert.agent_action((6, [2.0]))["action", "continuous"]
        array([-0.5], dtype=float32)
        """
        parts = [
            (is_choice(leaf), np.reshape(own, leaf.shape or ()).ravel())
            for _, leaf, own in leaves(self.space, action)
        ]
        chosen, values = (
            np.concatenate([np.empty(0), *(own for is_own, own in parts if is_own == kind)])
            for kind in (True, False)
        )
        places = chosen - self.starts
        slack = 1e-5 * (self.high - self.low)  # computed values are rounded
        chosen_well = (places >= 0) & (places < self.counts) & (places % 1 == 0)
        inside = (values >= self.low - slack) & (values <= self.high + slack)
        if not (chosen_well.all() and inside.all()):  # also for NaN
            raise ValueError(f"the action is {action!r}, wanted one of {self.space}")
        if self.rescale:
            values = 2 * (values - self.low) / (self.high - self.low) - 1
        vector, index = values.astype(np.float32), np.array(places.astype(int) @ self.strides)
        if not len(self.counts) or not len(self.low):
            return {"action": index if len(self.counts) else vector}
        return {("action", "discrete"): index, ("action", "continuous"): vector}

    def allowed_choices(self, mask: Any) -> NDArray[np.bool_]:
        """Return the combinations that a mask allows, bool ``[*, K]``.

        Args:
            mask: a mask of the combinations, ``[*, K]``; or a tuple or dictionary in the structure
                of the space, with a mask of each choice and None where all is allowed. For
                `MultiDiscrete` and `MultiBinary` it is a tuple, with a mask of each number.

        Raises:
            ValueError: for a mask of another shape.

        >>> convert = ActionConversion(Tuple([Discrete(2), Discrete(3)]), rescale=True)
        >>> convert.allowed_choices((np.array([0, 1]), np.array([1, 1, 0]))).nonzero()[0]
        array([3, 4])
        """
        if not isinstance(mask, tuple | dict):
            return _check_mask(mask, self.num_choices)
        joint = np.ones(1, bool)
        masks: list[Any] = []
        for _, leaf, own in leaves(self.space, mask):
            if is_choice(leaf):
                all_allowed = tuple(map(np.ones, choice_ranges(leaf)[0]))
                masks += all_allowed if own is None else own if isinstance(own, tuple) else (own,)
        for given, count in zip(masks, self.counts, strict=True):
            own = _check_mask(given, count)
            joint = joint[..., None] & own[..., None, :]
            joint = joint.reshape(*joint.shape[:-2], -1)
        return joint

    def agent_space(self) -> Space[Any]:
        """Return the space of the agent's action."""
        if not len(self.low):
            return Discrete(self.num_choices or 0)
        low = np.full_like(self.low, -1.0) if self.rescale else self.low
        high = np.full_like(self.high, 1.0) if self.rescale else self.high
        continuous = Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)
        if self.num_choices is None:
            return continuous
        both = {"discrete": Discrete(self.num_choices), "continuous": continuous}
        return Dict({"action": Dict(both)})

    def parameter_mask(self) -> NDArray[np.bool_] | None:
        """Return a mask of the dimensions that each choice uses, bool `[K, D]`.

        Where the boxes follow each other in one `Tuple` and exactly one choice has as many values,
        box i is the parameter of its value i, and ``mask[k, d]`` is true if dimension d belongs to
        the value in combination k. None if each uses each dimension.

        >>> import gymnasium as gym
        >>> space = gym.make("rlkit_sac/Platform-v0").action_space
        >>> ActionConversion(space, rescale=True).parameter_mask()[1]
        array([False,  True, False])
        """
        paths = [path for path, leaf, _ in leaves(self.space) if not is_choice(leaf)]
        owned = np.flatnonzero(self.counts == len(paths))
        if len(owned) != 1 or not isinstance(first := paths[0][-1], int):
            return None
        if paths != [(*paths[0][:-1], first + i) for i in range(len(paths))]:
            return None
        (own,) = owned
        taken = np.arange(prod(self.counts)) // self.strides[own] % self.counts[own]
        of_dimensions = np.repeat(np.arange(len(paths)), [j - i for i, j, *_ in self._boxes])
        mask: NDArray[np.bool_] = of_dimensions == taken[:, None]
        return None if mask.all() else mask

    def _decode_choice(self, index: Any) -> Iterator[Any]:
        """Return the value of each part that is a choice."""
        if self._is_discrete:  # the usual ones, in less time
            yield (index if np.ndim(index) else int(index)) + int(self.starts[0])
            return
        values = np.asarray(index)[..., None] // self.strides % self.counts + self.starts
        ends = accumulate(self._sizes, initial=0)
        for leaf, (i, j) in zip(self.choices, pairwise(ends), strict=True):
            shape = values.shape[:-1] + (leaf.shape or ())
            part = values[..., i:j].reshape(shape).astype(leaf.dtype)
            yield part if shape or not isinstance(leaf, Discrete) else int(part)

    def _build_action(
        self, space: Space[Any], choices: Iterator[Any], boxes: Iterator[NDArray[Any]]
    ) -> Any:
        if isinstance(space, Tuple):
            if self._all_continuous and set(map(type, space.spaces)) == {Box}:
                return tuple(islice(boxes, len(space.spaces)))
            return tuple(self._build_action(part, choices, boxes) for part in space.spaces)
        if isinstance(space, Dict):
            parts = space.spaces.items()
            return {name: self._build_action(part, choices, boxes) for name, part in parts}
        return next(choices if is_choice(space) else boxes)

    def _rescale_and_clip(self, values: Any) -> NDArray[np.float64]:
        value = np.asarray(values, dtype=np.float64)
        if value.shape[-1:] != self.low.shape:
            raise ValueError(f"the action has the shape {value.shape}, wanted {self.low.shape}")
        if self.rescale:
            # Two weighted ends: exact at -1 and 1, where low + (value + 1) * scale would round.
            value = (1.0 - value) * self._half_low + (1.0 + value) * self._half_high
        return np.minimum(np.maximum(value, self.low), self.high)  # faster than `numpy.clip`

    def _split_boxes(self, values: NDArray[np.float64]) -> Iterator[NDArray[Any]]:
        """Return the array of each box."""
        batch = values.shape[:-1]
        if self._are_rows and not batch:  # at once: there may be a thousand
            _, _, shape, dtype = self._boxes[0]
            return iter(values.reshape(len(self._boxes), *shape).astype(dtype))
        return (
            values[..., i:j].reshape(batch + shape).astype(dtype)
            for i, j, shape, dtype in self._boxes
        )


def replace_bounds(space: Space[Any], bounds: Any) -> Space[Any]:
    """Return a space whose boxes of numbers have other bounds.

    Args:
        space: a space of actions.
        bounds: ``[low, high]``, or a pair for each dimension of the agent's vector. ``None`` leaves
            the space as it is, with a warning of bounds that are too wide to explore.

    Raises:
        ConfigError: for bounds of another shape, or beyond those of the space.

    >>> replace_bounds(Box(-np.inf, np.inf, (2,)), [[-1, 1], [0, 3]])
    Box([-1.  0.], [1. 3.], (2,), float32)
    """
    found = (leaf for _, leaf, _ in leaves(space) if isinstance(leaf, Box))
    boxes = [box for box in found if np.issubdtype(box.dtype, np.floating)]
    if bounds is None:
        if any(((b.high == -b.low) & (b.high >= _WIDE) & (b.high < np.inf)).any() for b in boxes):
            text = f"the actions {space} are wide: give env.action_bounds what the task needs"
            warnings.warn(text, stacklevel=2)
        return space
    total, given = sum(box.low.size for box in boxes), np.array(bounds, object)
    if given.shape not in ((2,), (total, 2)) or not total or (given[..., 0] >= given[..., 1]).any():
        text = f"wanted [low, high] for {total} continuous dimensions, or one for each"
        raise ConfigError(f"env.action_bounds is {bounds}: {text}")
    rows = iter(np.broadcast_to(given.astype(float), (total, 2)))

    def replace_box_bounds(part: Space[Any]) -> Space[Any]:
        if is_choice(part) or not isinstance(part, Box):
            return part
        own = np.array(list(islice(rows, part.low.size)), part.dtype).reshape(*part.shape, 2)
        if (own[..., 0] < part.low).any() or (own[..., 1] > part.high).any():
            raise ConfigError(f"env.action_bounds is {bounds}, beyond those of the task, {part}")
        return Box(own[..., 0], own[..., 1], dtype=part.dtype.type)

    return map_space(space, replace_box_bounds)


def _boxes_and_choices(space: Space[Any]) -> tuple[list[Box], list[Space[Any]]]:
    """Return the continuous boxes of an action space, and the parts that are choices."""
    boxes: list[Box] = []
    choices: list[Space[Any]] = []
    for keys, leaf, _ in leaves(space):
        path = path_str(keys)
        if is_choice(leaf):
            choices.append(leaf)
        elif isinstance(leaf, Box) and np.issubdtype(leaf.dtype, np.floating):
            _check_box(leaf, path)
            boxes.append(leaf)
        else:
            where = f" holds {leaf} at {path}, which" if path else ""
            raise ConfigError(f"the action space {space}{where} is not supported; {_SUPPORTED}")
    combinations = prod(n for leaf in choices for n in choice_ranges(leaf)[0])
    if combinations > MOST_COMBINATIONS and [type(leaf) for leaf in choices] != [Discrete]:
        raise ConfigError(
            f"the action space {space} has {combinations} combinations of choices, at most "
            f"{MOST_COMBINATIONS}: leave some out with gymnasium.wrappers.TransformAction"
        )
    if not any(box.low.size for box in boxes) and not choices:
        raise ConfigError(f"the action space {space} has no dimensions; it needs at least one")
    return boxes, choices


def _check_mask(mask: Any, count: Any) -> NDArray[np.bool_]:
    given = np.asarray(mask)
    if given.dtype.kind not in "biuf" or not ((given == 0) | (given == 1)).all():
        raise ValueError(f"action_mask must hold 0 and 1, or false and true, got {mask!r}")
    array = given.astype(bool)
    if array.shape[-1:] != (count,):
        raise ValueError(f"action_mask has the shape {list(array.shape)}, wanted [{count}]")
    return array


def _flatten_bounds(bounds: list[NDArray[Any]]) -> NDArray[np.float64]:
    return np.concatenate([np.empty(0), *(np.ravel(bound) for bound in bounds)])


def _check_box(space: Box, path: str) -> None:
    low, high = (torch.from_numpy(bound.astype(np.float64)) for bound in (space.low, space.high))
    try:
        check_bounds(low, high, f" of the Box at {path}" if path else "")
    except ConfigError as error:
        raise ConfigError(
            f"{error}; give env.action_bounds, or wrap the environment in "
            "gymnasium.wrappers.TransformAction, with a Box that has them"
        ) from None
