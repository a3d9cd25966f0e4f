"""Atomic writes: a file is either the old version or the new one, whatever happens."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from rlkit_sac.errors import RunError


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file by new content: written aside, synced to disk, renamed.

    Args:
        path: the file; its folder exists.
        content: all of it.

    Raises:
        RunError: if it cannot be written; an older version stays as it was.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "note"
    >>> write_atomically(file, b"hello")
    >>> file.read_bytes()
    b'hello'
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        sync_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise RunError(f"cannot write {path}: {error.strerror}") from error
        raise


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that renames in it survive a power failure."""
    if os.name == "nt":  # Windows cannot open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_new_folder(parent: Path, name: str) -> Path:
    """Make a new folder; ``-2``, ``-3``, ... is appended to the name of one that exists.

    >>> import tempfile
    >>> parent = Path(tempfile.mkdtemp())
    >>> [make_new_folder(parent, "run").name for _ in range(2)]
    ['run', 'run-2']
    """
    number = 1
    while True:
        path = parent / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
        else:
            return path
