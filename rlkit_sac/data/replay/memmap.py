"""Replay in memory-mapped files whose space on the disk is reserved."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import torch
from tensordict import TensorDictBase
from torchrl.data import LazyMemmapStorage

from rlkit_sac.errors import prefix_errors

_INDEX = torch.zeros((), dtype=torch.int64)  # TorchRL's buffer stores one with each transition
_CHUNK = 2**20


def make_memmap_storage(
    example: TensorDictBase, *, capacity: int, directory: Path | None = None
) -> LazyMemmapStorage:
    """Makes a storage in memory-mapped files that take all of their space on the disk at once.

    Files of a :class:`~torchrl.data.LazyMemmapStorage` grow as pages are written to, and a disk
    that is full by then kills the process (SIGBUS).

    Args:
        example: one transition without batch dimensions, as it will be stored.
        capacity: transitions the storage holds.
        directory: empty or new directory of the files; None for temporary ones, which
            are deleted as soon as they are open: the system frees their space however the process
            ends. On Windows they stay until it ends, and are left by a process that is killed.

    Raises:
        ConfigError: the space cannot be reserved, which leaves no file.

    >>> from tensordict import TensorDict
    >>> make_memmap_storage(TensorDict(observation=torch.zeros(3)), capacity=100).max_size
    100
    """
    place = directory or Path(tempfile.gettempdir())
    text = f"the files of a replay buffer of {capacity} transitions cannot take their space in"
    advice = "choose a smaller capacity or another place"
    with prefix_errors(f"{text} {place} ({advice})", RuntimeError):  # which PyTorch raises
        place.mkdir(parents=True, exist_ok=True)
        folder = directory or Path(tempfile.mkdtemp(prefix="rlkit_sac-replay-", dir=place))
        with ExitStack() as failed:
            failed.callback(shutil.rmtree, folder, ignore_errors=True)
            storage = LazyMemmapStorage(capacity, scratch_dir=folder)
            storage._init(example.clone(False).set("index", _INDEX))
            with ExitStack() as opened:
                paths = folder.rglob("*.memmap")
                files = [opened.enter_context(path.open("r+b")) for path in paths]
                if directory is None and os.name != "nt":  # where a file in use cannot be deleted
                    shutil.rmtree(folder)
                for file in files:
                    _allocate_on_disk(file)
            failed.pop_all()
    if directory is None and os.name == "nt":
        weakref.finalize(storage, shutil.rmtree, folder, ignore_errors=True)
    return storage


def _allocate_on_disk(file: BinaryIO) -> None:
    """Take the space of a file of zeros on the disk."""
    size = os.fstat(file.fileno()).st_size
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
        return
    for start in range(0, size, _CHUNK):  # macOS, Windows
        file.write(bytes(min(_CHUNK, size - start)))
    file.flush()
