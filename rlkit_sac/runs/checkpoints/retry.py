"""Reading a checkpoint of a run that may still be training, and deletes older ones as it goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rlkit_sac.errors import RlkitSacError

Found = TypeVar("Found")

_RETRIES = 100  # of a run that deletes one checkpoint after the other


def read_unpruned(find: Callable[[], Path], read: Callable[[Path], Found]) -> Found:
    """Read a checkpoint, or the next one that is found where the first was deleted meanwhile.

    Args:
        find: looks for the folder of a checkpoint.
        read: reads it.

    Returns:
        What ``read`` returned.

    Raises:
        RlkitSacError: as ``find``, or as ``read`` where the folder is still there.
    """
    folder = None
    for _ in range(_RETRIES):
        try:
            folder = find()
            return read(folder)
        except RlkitSacError:  # noqa: PERF203
            if folder is not None and folder.exists():
                raise
    return read(find())
