"""Reading the files of a run directory, which may come from a stranger."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from rlkit_sac.errors import RunError

#: Most bytes of a JSON file, and of any file.
LARGEST_JSON, LARGEST_FILE = 64 * 2**20, 8 * 2**30


def open_file(file: Path, largest: int = LARGEST_FILE) -> BinaryIO:
    """Open a file of a run, which must be a regular file within the run directory.

    Links are followed within the run directory, and to it. Nothing blocks, as a FIFO would.

    Args:
        file: in the run directory, in its ``replay/`` or in one of ``checkpoints/step_<frames>/``.
        largest: number of bytes that it may have.

    Raises:
        OSError: for any other file, saying why.

    >>> open_file(Path("/dev/null"))
    Traceback (most recent call last):
        ...
    OSError: [Errno 22] it is not a regular file
    """
    run = file.parents[{"replay": 1}.get(file.parent.name, 0)]
    if file.parent.parent.name == "checkpoints":
        run = file.parents[2]
    if not _is_within(file, run):
        raise OSError(errno.EINVAL, f"it is a link that leads out of {run}")
    return open_regular(file, largest)


def open_regular(file: Path, largest: int) -> BinaryIO:
    """Open a file that may be a link, but no FIFO or device; as :func:`open_file`."""
    found = os.stat(file)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if found.st_size > largest:
        raise OSError(errno.EFBIG, f"it has {found.st_size:,} bytes, more than {largest:,}")
    return os.fdopen(os.open(file, os.O_RDONLY | _FLAGS), "rb")


def read_file(file: Path, largest: int = LARGEST_FILE) -> bytes:
    """The content of a file; as :func:`open_file`."""
    with open_file(file, largest) as opened:
        return opened.read(largest)


def read_json(file: Path) -> Any:
    """The value of a JSON file.

    Raises:
        OSError: as :func:`open_file`.
        ValueError: for what is not JSON, nested too deeply, or has a key twice in an object.
    """
    try:
        return json.loads(read_file(file, LARGEST_JSON), object_pairs_hook=_without_repeats)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def check_files(run: Path) -> None:
    """Refuse a run directory that leads elsewhere, before anything is written into it.

    Raises:
        RunError: naming a link that leads out of it, or what is neither a file nor a folder.

    >>> check_files(Path("nowhere"))
    """
    for folder, folders, files in os.walk(run):
        for path in (Path(folder, name) for name in (*folders, *files)):
            if not _is_within(path, run):
                raise RunError(f"{path} is a link that leads out of {run}: remove it")
            if not (path.is_file() or path.is_dir() or path.is_symlink()) and os.path.lexists(path):
                raise RunError(f"{path} is neither a file nor a folder: remove it")
        folders[:] = [each for each in folders if each != "wandb"]  # its logs link to W&B's cache


_FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # the latter on Windows


def _is_within(path: Path, run: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(run))


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key appears twice in an object")
    return found
