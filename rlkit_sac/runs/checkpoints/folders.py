"""Checkpoint folders: written as a whole or not at all, and checked before they are read.

checkpoints/step_<frames>/
  checkpoint.json      frames, JSON state, and SHA-256 of every file it needs
  state.safetensors    the tensors of the state
  policy.safetensors   the acting policy alone, with policy.json
replay/segment_<start>-<stop>.safetensors
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlkit_sac.errors import RunError
from rlkit_sac.runs.files import (
    checksum,
    os_errors_named,
    read_described,
    sync_folder,
    write_atomically,
)

FORMAT_VERSION = 3
MANIFEST = "checkpoint.json"
_NAME = re.compile(r"step_([0-9]+)")


def sha256(content: bytes) -> str:
    """The checksum of a file, as a manifest has it."""
    return hashlib.sha256(content).hexdigest()


def read_checked(file: Path, wanted: str) -> bytes:
    """Read a file that must have its checksum of the manifest.

    Raises:
        RunError: naming the file, if it is missing, cut short or changed.
    """
    with os_errors_named(f"{file} cannot be read"):
        content = file.read_bytes()
    if sha256(content) != wanted:
        raise RunError(f"{file} is damaged: its checksum is not that of its checkpoint")
    return content


def step_folders(checkpoints: Path) -> dict[int, Path]:
    """The complete checkpoints of a run by their frames, oldest first.

    >>> step_folders(Path("nowhere"))
    {}
    """
    folders = (file.parent for file in checkpoints.glob(f"step_*/{MANIFEST}"))
    found = {frames: folder for folder in folders if (frames := step_of(folder)) is not None}
    return dict(sorted(found.items()))


def step_of(folder: Path) -> int | None:
    """The frames in the name of a checkpoint folder; ``None`` for any other name.

    >>> step_of(Path("checkpoints/step_500")), step_of(Path("checkpoints"))
    (500, None)
    """
    match = _NAME.fullmatch(folder.name)
    return int(match[1]) if match else None


def write_folder(
    checkpoints: Path,
    frames: int,
    *,
    files: Mapping[str, bytes],
    segments: Mapping[str, str],
    config: Mapping[str, Any],
    state: Any,
) -> Path:
    """Write a checkpoint to a partial folder, and rename that when all of it is on disk.

    Args:
        checkpoints: the folder of checkpoints; made where missing.
        frames: of the run.
        files: content by name, for the folder itself.
        segments: checksums of the replay files it needs, by name.
        config: JSON values of the run's options, by dotted key.
        state: JSON value.

    Raises:
        RunError: if it cannot be written; earlier checkpoints stay as they were.
    """
    folder = checkpoints / f"step_{frames}"
    partial = checkpoints / f".step_{frames}.partial"
    manifest = {
        "format_version": FORMAT_VERSION,
        "frames": frames,
        "files": {name: sha256(content) for name, content in files.items()},
        "segments": dict(segments),
        "config": dict(config),
        "state": state,
    }
    manifest["sha256"] = checksum(manifest)
    with os_errors_named(f"cannot write {folder}"):
        try:
            checkpoints.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            for name, content in files.items():
                write_atomically(partial / name, content)
            write_atomically(partial / MANIFEST, json.dumps(manifest).encode())
            if folder.exists():  # without its manifest it was no checkpoint
                remove_folder(folder)
            os.rename(partial, folder)
            sync_folder(checkpoints)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return folder


def remove_folder(folder: Path) -> None:
    """Delete a checkpoint; an interrupted deletion leaves nothing that looks like one."""
    doomed = folder.with_name(f".{folder.name}.removed.partial")
    with os_errors_named(f"cannot remove {folder}"):
        shutil.rmtree(doomed, ignore_errors=True)
        os.rename(folder, doomed)
    shutil.rmtree(doomed, ignore_errors=True)


@dataclass(frozen=True)
class Manifest:
    """The content of ``checkpoint.json``.

    Attributes:
        folder: the checkpoint.
        frames: of the run.
        files: checksums of the files in the folder, by name.
        segments: those of replay files, by name.
        config: options of the run, by dotted key.
        state: JSON value.
    """

    folder: Path
    frames: int
    files: dict[str, str]
    segments: dict[str, str]
    config: dict[str, Any]
    state: Any

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read and check the manifest of a checkpoint.

        Raises:
            RunError: naming the file, if it is missing, damaged or of another format.
        """
        content = read_described(folder / MANIFEST, "a checkpoint", version=FORMAT_VERSION)
        names = ("frames", "files", "segments", "config", "state")
        return cls(folder, **{name: content[name] for name in names})

    def content(self, name: str) -> bytes:
        """A file of the folder, checked.

        Raises:
            RunError: as :func:`read_checked`.
        """
        return read_checked(self.folder / name, self.files[name])
