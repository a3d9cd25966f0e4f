"""Spaces of Gymnasium: their parts, however deep in tuples and dictionaries, and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from numpy.typing import NDArray

Path = tuple[int | str, ...]


def leaves(
    space: Space[Any], value: Any = None, path: Path = ()
) -> Iterator[tuple[Path, Space[Any], Any]]:
    """Yield the parts of a space that are neither `Tuple` nor `Dict`, in the order of the space.

    Args:
        space: any space.
        value: an observation of it, or None.
        path: the path of the space in another one.

    Yields:
        Path, space and value (or None) of each part.

    >>> from gymnasium.spaces import Discrete
    >>> space = Tuple([Discrete(2), Dict(speed=Discrete(3))])
    >>> list(leaves(space, (1, {"speed": 2})))
    [((0,), Discrete(2), 1), ((1, 'speed'), Discrete(3), 2)]
    """
    if isinstance(space, Tuple):
        parts: dict[Any, Space[Any]] = dict(enumerate(space.spaces))
        if value is not None and len(value) != len(parts):
            raise ValueError(f"{len(value)} parts were given, wanted {len(parts)}")
    elif isinstance(space, Dict):
        parts = space.spaces
    else:
        yield path, space, value
        return
    for key, part in parts.items():
        yield from leaves(part, None if value is None else value[key], (*path, key))


def map_leaves(space: Space[Any], function: Callable[..., Any], *values: Any) -> Any:
    """Return the structure of a space, with what a function makes of each leaf and of its values.

    Args:
        space: any space.
        function: called with each leaf, and with its part of each of `values`.
        values: observations or actions of the space.

    >>> from gymnasium.spaces import Discrete
    >>> space = Tuple([Discrete(2), Dict(speed=Discrete(3))])
    >>> map_leaves(space, lambda leaf, value: int(leaf.n) + value, (1, {"speed": 2}))
    (3, {'speed': 5})
    """
    if isinstance(space, Tuple):
        parts = zip(space.spaces, *values, strict=True)
        return tuple(map_leaves(part, function, *each) for part, *each in parts)
    if isinstance(space, Dict):
        named = space.spaces.items()
        return {key: map_leaves(part, function, *(v[key] for v in values)) for key, part in named}
    return function(space, *values)


def build_from_leaves(space: Space[Any], values: Iterator[Any]) -> Any:
    """Return copies of the values of the leaves, or of N of each, in the structure of a space.

    One value of a `Discrete` becomes Python's integer.

    Args:
        space: the space of the values.
        values: the values of each leaf, in the order of :func:`leaves`.

    >>> build_from_leaves(Tuple([Discrete(3), Box(0, 1, (1,))]), iter([np.array(2), np.zeros(1)]))
    (2, array([0.]))
    """

    def value_of(leaf: Space[Any]) -> Any:
        value = np.array(next(values))
        return value if value.shape or not isinstance(leaf, Discrete) else int(value)

    return map_leaves(space, value_of)


def map_space(space: Space[Any], function: Callable[[Space[Any]], Space[Any]]) -> Space[Any]:
    """Return a space with what a function makes of each leaf."""
    if isinstance(space, Tuple):
        return Tuple([map_space(part, function) for part in space.spaces])
    if isinstance(space, Dict):
        return dict_space({key: map_space(part, function) for key, part in space.items()})
    return function(space)


def dict_space(parts: Mapping[str, Space[Any]]) -> Dict:
    """Return a `Dict` of these parts in their order; Gymnasium's constructor would sort them."""
    space = Dict()
    space.spaces = dict(parts)
    return space


def path_str(path: Path) -> str:
    """Return the path of a part of a space as Python's index.

    >>> path_str((1, "speed"))
    "[1]['speed']"
    """
    return "".join(f"[{key!r}]" for key in path)


def is_choice(space: Space[Any]) -> bool:
    """Return whether a part of an action space is a choice among integers, or several."""
    if isinstance(space, Box):
        return bool(np.issubdtype(space.dtype, np.integer))
    return isinstance(space, (Discrete, MultiDiscrete, MultiBinary))


def choice_ranges(space: Any) -> tuple[list[int], list[int]]:
    """Return the number of values of each choice in a part, and the first of them.

    >>> choice_ranges(Box(-1, 2, (2,), np.int8))
    ([4, 4], [-1, -1])
    """
    if isinstance(space, Discrete):
        return [int(space.n)], [int(space.start)]
    if isinstance(space, MultiDiscrete):
        counts, starts = space.nvec, space.start
    elif isinstance(space, MultiBinary):
        counts, starts = np.full(space.shape, 2), np.zeros(space.shape, np.int64)
    else:  # Python's integers, which do not overflow
        counts, starts = space.high.astype(object) - space.low.astype(object) + 1, space.low
    return np.ravel(counts).tolist(), np.ravel(starts).tolist()


def space_to_json(space: Space[Any]) -> dict[str, Any]:
    """Return a space as JSON values; JSON lacks infinity, so such bounds are the largest number.

    Raises:
        TypeError: for a space of another kind.

    >>> space_to_json(Tuple([Discrete(3, start=1), Box(0, np.array([1, 2]))]))["parts"][1]
    {'kind': 'Box', 'dtype': 'float32', 'shape': [2], 'low': 0.0, 'high': [1.0, 2.0]}
    """
    if isinstance(space, Tuple):
        return {"kind": "Tuple", "parts": [space_to_json(part) for part in space.spaces]}
    if isinstance(space, Dict):
        parts = [[name, space_to_json(part)] for name, part in space.spaces.items()]
        return {"kind": "Dict", "parts": parts}
    if isinstance(space, Box):
        bounds = {"low": _bound_to_json(space.low), "high": _bound_to_json(space.high)}
        return {"kind": "Box", "dtype": str(space.dtype), "shape": list(space.shape), **bounds}
    if isinstance(space, Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, MultiDiscrete):
        return {"kind": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": space.start.tolist()}
    if isinstance(space, MultiBinary):
        return {"kind": "MultiBinary", "n": list(space.shape)}
    raise TypeError(f"{space} cannot be described as JSON")


def space_from_json(described: dict[str, Any]) -> Space[Any]:
    """Return the space that :func:`space_to_json` described.

    >>> space = Dict(speed=Box(0, np.inf, (2,)), mode=MultiDiscrete([2, 3]))
    >>> space_from_json(space_to_json(space)) == space
    True
    """
    entries = dict(described)
    kind = entries.pop("kind")
    if kind == "Tuple":
        return Tuple([space_from_json(part) for part in entries["parts"]])
    if kind == "Dict":
        return dict_space({name: space_from_json(part) for name, part in entries["parts"]})
    if kind == "Box":
        dtype, shape = np.dtype(entries["dtype"]), entries["shape"]
        bounds = (np.array(entries[name], dtype) for name in ("low", "high"))
        low, high = (np.broadcast_to(_with_infinity(bound), shape) for bound in bounds)
        return Box(low, high, dtype=dtype.type)
    plain: dict[str, Any] = {each.__name__: each for each in (Discrete, MultiBinary, MultiDiscrete)}
    return plain[kind](**entries)


def _with_infinity(bound: NDArray[Any]) -> NDArray[Any]:
    if not np.issubdtype(bound.dtype, np.floating):
        return bound
    return np.where(np.abs(bound) < np.finfo(bound.dtype).max, bound, np.copysign(np.inf, bound))


def _bound_to_json(bound: NDArray[Any]) -> Any:
    """One number where all are the same."""
    finite = np.nan_to_num(bound)
    same = finite.size and (finite == finite.flat[0]).all()
    return finite.flat[0].item() if same else finite.tolist()
