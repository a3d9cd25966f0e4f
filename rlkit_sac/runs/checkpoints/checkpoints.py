"""The checkpoints of a run: when to save, how to restore one, which to keep."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

import safetensors.torch
from torch import nn
from torchrl.data import TensorDictReplayBuffer

from rlkit_sac.data.replay.slices import SliceSampler
from rlkit_sac.errors import ConfigError, RunError
from rlkit_sac.runs.checkpoints.folders import (
    Manifest,
    read_checked,
    remove_folder,
    sha256,
    step_folders,
    step_of,
    write_folder,
)
from rlkit_sac.runs.checkpoints.replay_segments import (
    read_segments,
    segment_range,
    write_segments,
)
from rlkit_sac.runs.checkpoints.state_tree import join_state, split_state
from rlkit_sac.runs.files import os_errors_named
from rlkit_sac.runs.random_streams import random_state, set_random_state
from rlkit_sac.updates.schedule import EveryFrames

STATE = "state.safetensors"


class Stateful(Protocol):
    """A part of a run that can be saved and restored.

    One that may not be restored exactly has a list ``inexact_reasons``, empty if it was.
    """

    def state_dict(self) -> Mapping[str, Any]:
        """Nested dicts, lists and tuples of JSON values, tensors and NumPy arrays."""

    def load_state_dict(self, state: Any, /) -> object:
        """Restore a state."""


class Checkpoints:
    """Saves the whole state of a run, and restores it.

    A checkpoint holds the state of each part, of all random generators and the acting policy;
    replay is written once, in segments beside it. Nothing is pickled, every file has a checksum,
    and a checkpoint gets its name only when all of it is on disk: a process that is killed at any
    moment leaves the previous one.

    Args:
        run_path: the run directory.
        parts: by name.
        replay: the buffer, with a ring of ``capacity`` slots.
        policy: returns the files of the acting policy, as
            :func:`~rlkit_sac.runs.policies.files.policy_files` makes them.
        config: the options of the run by dotted key, JSON values.
        interval: frames between two checkpoints.
        keep: newest checkpoints kept, besides that of the best evaluation.
        best: frames of the best evaluation among some.
        leader: folder of checkpoints instead; those of the same frames are kept, and the newest.

    Attributes:
        folder: where the checkpoints are, ``step_<frames>`` each.
        saved_at: frames of the newest checkpoint.
    """

    def __init__(
        self,
        run_path: Path,
        parts: Mapping[str, Stateful],
        replay: TensorDictReplayBuffer,
        *,
        policy: Callable[[], Mapping[str, bytes]],
        config: Mapping[str, Any],
        interval: int,
        keep: int,
        best: Callable[[Collection[int]], int | None],
        leader: Path | None = None,
    ) -> None:
        self.folder = run_path / "checkpoints"
        self._replay_folder = run_path / "replay"
        self._parts = dict(parts)
        self._replay = replay
        self._policy = policy
        self._config = dict(config)
        self._every = EveryFrames(interval)
        self._keep, self._best, self._leader = keep, best, leader
        self._segments: dict[str, str] = {}
        self.saved_at = 0

    def due(self, frames: int) -> bool:
        """Whether a multiple of the interval was reached since the last checkpoint.

        Args:
            frames: frames of the run so far.
        """
        return self._every.due(self.saved_at, frames)

    def save(self, frames: int) -> None:
        """Write a checkpoint, unless this frame has one, and delete what is no longer kept.

        Raises:
            RunError: if it cannot be written; the previous one stays intact.
        """
        if frames in step_folders(self.folder):
            return
        with os_errors_named(f"cannot create {self._replay_folder}"):
            self._replay_folder.mkdir(parents=True, exist_ok=True)
        oldest = self._replay.write_count - self._replay.storage.max_size
        stops = {name: segment_range(name)[1] for name in self._segments}
        saved = max(stops.values(), default=0)
        segments = {name: each for name, each in self._segments.items() if stops[name] > oldest}
        for file in write_segments(self._replay, self._replay_folder, saved=saved):
            segments[file.name] = sha256(file.read_bytes())
        state = {name: part.state_dict() for name, part in self._parts.items()}
        replay = {"capacity": self._replay.storage.max_size}
        tree, tensors = split_state(state | {"random": random_state(), "replay": replay})
        write_folder(
            self.folder,
            frames,
            files={STATE: safetensors.torch.save(tensors), **self._policy()},
            segments=segments,
            config=self._config,
            state=tree,
        )
        self._segments, self.saved_at = segments, frames
        self.prune()

    def restore(self, folder: Path) -> list[str]:
        """Restore every part, replay and the random generators from a checkpoint.

        Nothing is written. All files are checked before they are used.

        Args:
            folder: the checkpoint, ``checkpoints/step_<frames>``.

        Returns:
            Why the resumed run differs from one that never stopped; usually nothing.

        Raises:
            ConfigError: naming the file, if one is missing, damaged, of another format, or does not
                fit this run.
        """
        try:
            manifest = Manifest.read(folder)
            state = read_state(manifest)
            missing = [name for name in self._parts if name not in state]
            if missing:
                raise RunError(f"it holds no state of {', '.join(missing)}")
            if (capacity := state["replay"]["capacity"]) != self._replay.storage.max_size:
                raise RunError(f"its replay has another capacity, {capacity}")
            files = [(self._replay_folder / name, each) for name, each in manifest.segments.items()]
            read_segments(self._replay, ((file, read_checked(file, each)) for file, each in files))
            # After replay, which gives transitions the priorities of new ones.
            for name, part in self._parts.items():
                # TensorDictParams would repeat values of another shape.
                if isinstance(part, nn.Module) and (
                    misfit := first_misfit(part.state_dict(), state[name])
                ):
                    raise RunError(f"{STATE} does not hold the {name} of this run: {misfit}")
                part.load_state_dict(state[name])
            same_streams = set_random_state(state["random"])
        except Exception as error:  # any error that wrong content of a file can cause
            raise ConfigError(describe_damage(folder, error)) from error
        self._segments, self.saved_at = manifest.segments, manifest.frames
        inexact_reasons = [] if same_streams else ["the random streams are those of other devices"]
        for part in self._parts.values():
            inexact_reasons += getattr(part, "inexact_reasons", [])
        if inexact_reasons and isinstance(self._replay.sampler, SliceSampler):
            self._replay.sampler.cut()  # an episode may have been lost
        return inexact_reasons

    def discard_later(self) -> None:
        """Delete the checkpoints after the restored one, which the run will write again."""
        for frames, folder in step_folders(self.folder).items():
            if frames > self.saved_at:
                remove_folder(folder)

    def prune(self) -> None:
        """Delete checkpoints that are neither new nor best, and replay that no other one needs."""
        folders = step_folders(self.folder)
        if self._leader is None:
            kept = {*list(folders)[-self._keep :], self._best(folders)}
        else:
            kept = {*list(folders)[-1:], *step_folders(self._leader)}
        for frames, folder in folders.items():
            if frames not in kept:
                remove_folder(folder)
        needed = set(self._segments)
        for folder in step_folders(self.folder).values():
            with contextlib.suppress(RunError):  # a damaged one can claim nothing
                needed |= set(Manifest.read(folder).segments)
        for file in self._replay_folder.glob("*segment_*"):
            if file.name not in needed:  # partial files of a killed process too
                file.unlink(missing_ok=True)
        for leftover in self.folder.glob(".step_*.partial"):
            shutil.rmtree(leftover, ignore_errors=True)


def describe_damage(folder: Path, error: Exception) -> str:
    """One line for a checkpoint that cannot be used, with the newest older one that can.

    Args:
        folder: the checkpoint, ``checkpoints/step_<frames>``.
        error: what is wrong with it.
    """
    older = step_folders(folder.parent).items()
    intact = [path for at, path in older if at < (step_of(folder) or 0) and _is_intact(path)]
    advice = f"; an older checkpoint is intact: --resume {intact[-1]}" if intact else ""
    text = " ".join(str(error).split())
    return f"cannot resume from {folder}: {text}{advice}"


def read_state(manifest: Manifest) -> dict[str, Any]:
    """The nested state of a checkpoint.

    Raises:
        RunError: naming the file, if the tensors are missing or damaged.
    """
    tensors = safetensors.torch.load(manifest.content(STATE))
    return join_state(manifest.state, tensors)


def first_misfit(own: Mapping[str, Any], saved: Mapping[str, Any]) -> str:
    """The first tensor of a state dict that another lacks, or has in another shape.

    Args:
        own: of the module.
        saved: of the file.

    Returns:
        A description, empty if all fit.

    >>> import torch
    >>> first_misfit({"w": torch.zeros(3), "b": torch.zeros(1)}, {"b": torch.zeros(2)})
    'b is [2] there and [1] here'
    """
    for name in sorted(own.keys() | saved.keys()):
        there, here = (
            list(getattr(state[name], "shape", ())) if name in state else "missing"
            for state in (saved, own)
        )
        # A run has weights of rewards once it was given some.
        if there != here and not name.endswith("reward_weights.value"):
            return f"{name} is {there} there and {here} here"
    return ""


def _is_intact(folder: Path) -> bool:
    replay = folder.parent.parent / "replay"
    try:
        manifest = Manifest.read(folder)
        for name in manifest.files:
            manifest.content(name)
        for name, wanted in manifest.segments.items():
            read_checked(replay / name, wanted)
    except RunError:
        return False
    return True
