"""Nested spaces as the sequence of their parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gymnasium.spaces import Dict, Space, Tuple

Path = tuple[int | str, ...]


def leaves(
    space: Space[Any], value: Any = None, path: Path = ()
) -> Iterator[tuple[Path, Space[Any], Any]]:
    """The parts of a space that are neither `Tuple` nor `Dict`, in the order of the space.

    Args:
        space: any space.
        value: an element of it, or None.
        path: of the space in another one.

    Yields:
        Path, space and value (or None) of each part.

    >>> from gymnasium.spaces import Discrete
    >>> space = Tuple([Discrete(2), Dict(speed=Discrete(3))])
    >>> list(leaves(space, (1, {"speed": 2})))
    [((0,), Discrete(2), 1), ((1, 'speed'), Discrete(3), 2)]
    """
    if isinstance(space, Tuple):
        parts: Any = enumerate(space.spaces)
    elif isinstance(space, Dict):
        parts = space.spaces.items()
    else:
        yield path, space, value
        return
    for key, part in parts:
        yield from leaves(part, None if value is None else value[key], (*path, key))
