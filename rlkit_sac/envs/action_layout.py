"""The continuous dimensions and the discrete choice of a nested action space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Space, Tuple
from numpy.typing import NDArray

from rlkit_sac.envs.spaces import leaves
from rlkit_sac.errors import ConfigError

# Environments often write "unbounded" as the largest float instead of infinity.
_LARGEST_BOUND = float(np.finfo(np.float32).max)

_SUPPORTED = (
    "supported are a floating-point Box with finite bounds, Discrete, and any Tuple or Dict of "
    "these with at most one Discrete in it"
)


@dataclass(frozen=True)
class ActionLayout:
    """The dimensions of an action space, and the conversion from numbers to its structure.

    Boxes are flattened in C order and concatenated in the order of the space: a `Tuple` by index,
    a `Dict` as its ``spaces`` iterate (by sorted name, unless an ordered mapping was given).

    Attributes:
        space: the action space.
        low: lower bounds `[D]` of all boxes, float64.
        high: upper bounds `[D]`.
        num_choices: K, the size of the `Discrete`; None without one.
        parameter_mask: bool `[K, D]`, for a `Tuple` of ``Discrete(K)`` and K boxes, or of
            ``Discrete(K)`` and a `Tuple` of K boxes. Box k is the parameter of choice k, and
            ``mask[k, d]`` is true if dimension d belongs to it. None if each choice uses each
            dimension.

    >>> layout = ActionLayout.of(Tuple([Discrete(2), Tuple([Box(0, 5), Box(0, 9, (2,))])]))
    >>> layout.high, layout.num_choices
    (array([5., 9., 9.]), 2)
    >>> layout.parameter_mask
    array([[ True, False, False],
           [False,  True,  True]])
    >>> layout.restore(1, np.array([1.0, 2.0, 3.0]))
    (1, (array([1.], dtype=float32), array([2., 3.], dtype=float32)))
    """

    space: Space[Any]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    num_choices: int | None
    parameter_mask: NDArray[np.bool_] | None
    _ends: tuple[int, ...]

    @classmethod
    def of(cls, space: Space[Any]) -> ActionLayout:
        """Reads an action space.

        Raises:
            ConfigError: it holds another kind of space, several `Discrete`, no dimension at all, or
                a box of integers, with an infinite bound, or with an empty interval.
        """
        boxes: dict[str, Box] = {}
        choices: dict[str, Discrete[Any]] = {}
        for keys, leaf, _ in leaves(space):
            path = "".join(f"[{key!r}]" for key in keys)
            if isinstance(leaf, Box):
                _check_box(leaf, path)
                boxes[path] = leaf
            elif isinstance(leaf, Discrete):
                choices[path] = leaf
            else:
                where = f" holds {leaf} at {path}, which" if path else ""
                raise ConfigError(f"the action space {space}{where} is not supported; {_SUPPORTED}")
        if len(choices) > 1:
            count = np.prod([int(choice.n) for choice in choices.values()])
            raise ConfigError(
                f"the action space {space} holds several Discrete, at {' and '.join(choices)}; "
                f"{_SUPPORTED}: let the environment take one Discrete({count}) of all combinations"
            )
        sizes = [box.low.size for box in boxes.values()]
        if not sum(sizes) and not choices:
            raise ConfigError(f"the action space {space} has no dimensions; it needs at least one")
        return cls(
            space=space,
            low=_joined([box.low for box in boxes.values()]),
            high=_joined([box.high for box in boxes.values()]),
            num_choices=next((int(choice.n) for choice in choices.values()), None),
            parameter_mask=_parameter_mask(space),
            _ends=tuple(accumulate(sizes, initial=0)),
        )

    def restore(self, choice: int, values: NDArray[np.float64]) -> Any:
        """Returns the environment's own action.

        Args:
            choice: index 0 … K-1; not read without a `Discrete`.
            values: one number `[D]` per dimension, within the bounds.

        Returns:
            Tuples, dictionaries, Python integers and arrays of each box's own shape and dtype.
        """
        if isinstance(self.space, Box):  # the most common one, without the overhead of a tree
            return values.reshape(self.space.shape).astype(self.space.dtype)
        return _build(self.space, choice, (values[i:j] for i, j in pairwise(self._ends)))


def _build(space: Space[Any], choice: int, boxes: Iterator[NDArray[np.float64]]) -> Any:
    if isinstance(space, Box):
        return next(boxes).reshape(space.shape).astype(space.dtype)
    if isinstance(space, Discrete):
        return choice + int(space.start)
    if isinstance(space, Tuple):
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
    for name, bound in (("lower", space.low), ("upper", space.high)):
        for index in np.argwhere(~(np.abs(bound) < _LARGEST_BOUND)):
            raise ConfigError(
                f"the {name} bound of action dimension {index.tolist()}{where} is "
                f"{bound[tuple(index)]}; every bound must be finite: give the environment an "
                "action space with finite bounds"
            )
    for index in np.argwhere(~(space.low < space.high)):
        low, high = space.low[tuple(index)], space.high[tuple(index)]
        raise ConfigError(
            f"the lower bound {low} of action dimension {index.tolist()}{where} is not below its "
            f"upper bound {high}; remove the dimension or widen its bounds"
        )
