"""Files that are either the old version or the new one, whatever happens while writing."""

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
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise RunError(f"cannot write {path}: {error.strerror}") from error


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows cannot open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
