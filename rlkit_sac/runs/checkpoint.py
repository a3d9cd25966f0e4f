"""Checkpoints: the whole state of a run on disk, without pickle.

checkpoints/step_<frames>/
  checkpoint.json      frames, options, JSON state, and SHA-256 of every file it needs
  state.safetensors    the tensors of the state
  policy.safetensors   the acting policy alone, with policy.json
replay/segment_<start>-<stop>.safetensors

Transitions are numbered from 0 in the order in which they were stored; number ``i`` lies in slot
``i % capacity`` of the buffer. A segment holds the numbers ``start`` to ``stop - 1``, each of which
is written once.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
from tensordict import TensorDict, TensorDictBase

from rlkit_sac.config.read import from_yaml
from rlkit_sac.errors import ConfigError, RunError
from rlkit_sac.runs.files import join_state, read_checked, read_described

FORMAT_VERSION = 5
MANIFEST = "checkpoint.json"
STATE = "state.safetensors"
_NAME = re.compile(r"step_([0-9]+)")


def step_folders(checkpoints: Path, with_file: str = MANIFEST) -> dict[int, Path]:
    """Return the folders of a run's checkpoints that hold a file, by frames, oldest first.

    A checkpoint with its manifest is complete.

    >>> step_folders(Path("nowhere"))
    {}
    """
    folders = (file.parent for file in checkpoints.glob(f"step_*/{with_file}"))
    steps = {frames: folder for folder in folders if (frames := step_of(folder)) is not None}
    return dict(sorted(steps.items()))


def step_of(folder: Path) -> int | None:
    """Return the frames in the name of a checkpoint folder; ``None`` for any other name.

    >>> step_of(Path("checkpoints/step_500")), step_of(Path("checkpoints"))
    (500, None)
    """
    match = _NAME.fullmatch(folder.name)
    return int(match[1]) if match else None


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint, whose files are checked when they are read.

    Attributes:
        folder: the folder of the checkpoint.
        frames: frames of the run at the checkpoint.
        files: checksums of the files in the folder, by name.
        segments: checksums of the replay files, by name, oldest first.
        config: the options of the run, by dotted key.
        tree: the state as JSON values that refer to tensors.
    """

    folder: Path
    frames: int
    files: dict[str, str]
    segments: dict[str, str]
    config: dict[str, Any]
    tree: Any

    @classmethod
    def find(cls, path: Path | str) -> Checkpoint:
        """Return the checkpoint that a path names.

        Args:
            path: a run directory, for its newest checkpoint, or one of its
                ``checkpoints/step_<frames>``.

        Raises:
            ConfigError: if there is no checkpoint, or a file of it is damaged.

        >>> Checkpoint.find("nowhere")
        Traceback (most recent call last):
            ...
        rlkit_sac.errors.ConfigError: nowhere is not a folder; give a run directory, or one of ...
        """
        path = Path(path)
        if not os.path.isdir(path):  # unlike `Path.is_dir`, raises nothing for a name too long
            text = "give a run directory, or one of its checkpoints/step_<frames>"
            raise ConfigError(f"{path} is not a folder; {text}")
        for folder in (path, path.resolve()):  # a link to a checkpoint, or "." inside of one
            if folder.parent.name == "checkpoints" and step_of(folder) is not None:
                break
        else:
            folders = step_folders(path / "checkpoints")
            if not folders:
                raise ConfigError(
                    f"{path} has no checkpoint to read (no checkpoints/step_<frames>)"
                )
            folder = folders[max(folders)]
        try:
            return cls.read(folder)
        except RunError as error:
            raise ConfigError(describe_damage(folder, error)) from error

    @classmethod
    def read(cls, folder: Path) -> Checkpoint:
        """Read and check ``checkpoint.json``.

        Raises:
            RunError: naming the file, if it is missing, damaged or of another format.
        """
        content = read_described(folder / MANIFEST, version=FORMAT_VERSION)
        parts = {name: content[name] for name in ("frames", "files", "segments", "tree")}
        return cls(folder, config=from_yaml(content["config"]), **parts)

    @property
    def run_path(self) -> Path:
        """The run directory, or the folder of one of its processes."""
        return self.folder.parent.parent

    def content(self, name: str) -> bytes:
        """Return the content of a file of the folder, or of a replay file.

        Raises:
            RunError: naming the file, if it is missing, cut short or changed.
        """
        is_segment = name in self.segments
        file = self.run_path / "replay" / name if is_segment else self.folder / name
        return read_checked(file, (self.segments if is_segment else self.files)[name])

    def state(self) -> dict[str, Any]:
        """Return the nested state of the run.

        Raises:
            RunError: as :meth:`content`.
        """
        return join_state(self.tree, safetensors.torch.load(self.content(STATE)))

    def replay(self) -> Iterator[tuple[int, TensorDictBase]]:
        """Yield the number of the first transition of each segment, and its transitions ``[n]``.

        Raises:
            RunError: as :meth:`content`.
        """
        for name in self.segments:
            start, stop = segment_range(name)
            rows = TensorDict(batch_size=[stop - start])
            for text, value in safetensors.torch.load(self.content(name)).items():
                key = json.loads(text)
                rows.set(tuple(key) if isinstance(key, list) else key, value)
            yield start, rows

    def check(self) -> None:
        """Read every file and check it.

        Raises:
            RunError: as :meth:`content`.
        """
        for name in (*self.files, *self.segments):
            self.content(name)


def describe_damage(folder: Path, error: Exception) -> str:
    """Return a line on a damaged checkpoint that names the newest older one that is intact.

    Args:
        folder: the checkpoint, ``checkpoints/step_<frames>``.
        error: the error that its use raised.
    """
    intact = None
    for frames, path in step_folders(folder.parent).items():
        with contextlib.suppress(RunError):
            if frames < (step_of(folder) or 0):
                Checkpoint.read(path).check()
                intact = path
    advice = f"; an older checkpoint is intact: {intact}" if intact else ""
    return f"cannot use {folder}: {' '.join(str(error).split())}{advice}"


def segment_range(name: str) -> tuple[int, int]:
    """Return the first number of a segment, and the number after its last.

    >>> segment_range("segment_0-500.safetensors")
    (0, 500)
    """
    start, stop = re.findall(r"\d+", name)
    return int(start), int(stop)
