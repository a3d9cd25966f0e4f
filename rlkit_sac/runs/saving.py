"""The checkpoints of a run in progress: saved, restored, removed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from tensordict import TensorDictBase
from torch import nn
from torchrl.data import TensorDictReplayBuffer

from rlkit_sac.config.read import to_yaml
from rlkit_sac.errors import ConfigError, RunError, as_run_error
from rlkit_sac.graph.preserve_state import random_state, set_random_state
from rlkit_sac.modules.structure import structure
from rlkit_sac.runs.checkpoint import (
    FORMAT_VERSION,
    MANIFEST,
    STATE,
    Checkpoint,
    describe_damage,
    segment_range,
    step_folders,
)
from rlkit_sac.runs.files import checksum, split_state, sync, write_atomically
from rlkit_sac.runs.machine import rank

_SEGMENT_BYTES = 64 * 2**20


class Checkpoints:
    """Saves the whole state of a run, and restores it.

    A checkpoint holds the state of each part, of all random generators and the acting policy;
    replay is written once, in segments beside it. Nothing is pickled, every file has a checksum,
    and a checkpoint gets its name only when all of it is on disk: a process that is killed at any
    moment leaves the previous one.

    Args:
        run_path: the run directory; ranks other than 0 write to ``ranks/<rank>`` in it.
        parts: the parts by name, the loss as ``loss``. Each has ``load_state_dict(state)`` and
            ``state_dict()``: nested dicts, lists and tuples of JSON values, tensors and NumPy
            arrays. A part that may not be restored exactly has a list ``inexact_reasons``, which is
            empty if it was.
        replay: the replay buffer, with a ring of ``capacity`` slots.
        policy: a function that returns the files of the acting policy, as
            :func:`~rlkit_sac.runs.policy.policy_files` makes them.
        config: the options of the run by dotted key.
        keep: number of newest checkpoints to keep, besides the one of the best evaluation.
        best: a function that returns the frames of the best evaluation among given ones.

    Attributes:
        folder: the folder of the checkpoints ``step_<frames>``.
        saved_at: frames of the newest checkpoint.
    """

    def __init__(
        self,
        run_path: Path,
        parts: Mapping[str, Any],
        replay: TensorDictReplayBuffer,
        *,
        policy: Callable[[], Mapping[str, bytes]],
        config: Mapping[str, Any],
        keep: int,
        best: Callable[[Collection[int]], int | None],
    ) -> None:
        self._leader = run_path / "checkpoints"  # of rank 0, which decides what the others keep
        own = run_path / "ranks" / str(rank()) if rank() else run_path
        self.folder, self._replay_folder = own / "checkpoints", own / "replay"
        self._parts, self._replay = dict(parts), replay
        self._policy, self._config = policy, to_yaml(dict(config))
        self._keep, self._best = keep, best
        self._segments: dict[str, str] = {}
        self.saved_at = 0

    def save(self, frames: int) -> None:
        """Write a checkpoint, unless this frame has one, and delete those that are not kept.

        Raises:
            RunError: if it cannot be written; the previous one stays intact.
        """
        if frames in step_folders(self.folder):
            return
        capacity = self._replay.storage.max_size
        oldest = self._replay.write_count - capacity
        stops = {name: segment_range(name)[1] for name in self._segments}
        segments = {name: sha for name, sha in self._segments.items() if stops[name] > oldest}
        saved = max(stops.values(), default=0)
        segments |= write_segments(self._replay, self._replay_folder, saved=saved)
        state = {name: part.state_dict() for name, part in self._parts.items()}
        state |= {"random": random_state(), "replay": {"capacity": capacity}}
        state["layers"] = structure(loss_parts(self._parts.get("loss", nn.Identity())))
        tree, tensors = split_state(state)
        files = {STATE: safetensors.torch.save(tensors), **self._policy()}
        content = {"segments": segments, "config": self._config, "tree": tree}
        write_folder(self.folder, frames, files, content)
        self._segments, self.saved_at = segments, frames
        self.prune()

    def restore(self, checkpoint: Checkpoint) -> list[str]:
        """Restore every part, replay and the random generators from a checkpoint.

        Nothing is written. All files are checked before they are used.

        Args:
            checkpoint: a checkpoint of the run.

        Returns:
            The reasons why the resumed run differs from one that never stopped; usually none.

        Raises:
            ConfigError: naming the file, if one is missing, damaged, of another format, or does not
                fit this run.
        """
        try:
            state = checkpoint.state()
            for start, rows in checkpoint.replay():
                fill_replay(self._replay, start, rows)
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
            raise ConfigError(describe_damage(checkpoint.folder, error)) from error
        self._segments, self.saved_at = checkpoint.segments, checkpoint.frames
        inexact_reasons = [] if same_streams else ["the random streams are those of other devices"]
        for part in self._parts.values():
            inexact_reasons += getattr(part, "inexact_reasons", [])
        for part in (self._replay.sampler, *self._replay.transform.transforms):
            if inexact_reasons and hasattr(part, "mark_gap"):
                part.mark_gap()  # an episode may have been lost
        return inexact_reasons

    def discard_later(self) -> None:
        """Delete the checkpoints after the restored one, which the run will write again."""
        for frames, folder in step_folders(self.folder).items():
            if frames > self.saved_at:
                _remove_folder(folder)

    def prune(self) -> None:
        """Delete checkpoints that are neither new nor best, and replay that no other one needs."""
        folders = step_folders(self.folder)
        if rank() == 0:
            kept = {*list(folders)[-self._keep :], self._best(folders)}
        else:
            kept = {*list(folders)[-1:], *step_folders(self._leader)}
        for frames, folder in folders.items():
            if frames not in kept:
                _remove_folder(folder)
        needed = set(self._segments)
        for folder in step_folders(self.folder).values():
            with contextlib.suppress(RunError):  # a damaged one can claim nothing
                needed |= Checkpoint.read(folder).segments.keys()
        for file in self._replay_folder.glob("*segment_*"):
            if file.name not in needed:  # partial files of a killed process too
                file.unlink(missing_ok=True)
        for leftover in self.folder.glob(".step_*.partial"):
            shutil.rmtree(leftover, ignore_errors=True)


def write_folder(
    checkpoints: Path, frames: int, files: Mapping[str, bytes], content: Mapping[str, Any]
) -> Path:
    """Write a checkpoint to a partial folder, and rename the folder when all files are on disk.

    Args:
        checkpoints: the folder of checkpoints, which is created where missing.
        frames: frames of the run.
        files: content of the files in the folder, by name.
        content: further entries of the manifest: ``segments``, the checksums of the replay files
            that are needed, by name; ``config``, the options of the run by dotted key, as YAML; and
            ``tree``, a JSON value.

    Raises:
        RunError: if it cannot be written; earlier checkpoints stay as they were.
    """
    folder = checkpoints / f"step_{frames}"
    partial = checkpoints / f".step_{frames}.partial"
    with as_run_error(f"cannot write {folder}"):
        try:
            shutil.rmtree(partial, ignore_errors=True)
            manifest = {
                "format_version": FORMAT_VERSION,
                "frames": frames,
                "files": {name: write_atomically(partial / name, files[name]) for name in files},
                **content,
            }
            manifest["sha256"] = checksum(manifest)
            write_atomically(partial / MANIFEST, json.dumps(manifest).encode())
            if folder.exists():  # without its manifest it was no checkpoint
                _remove_folder(folder)
            os.rename(partial, folder)
            sync(checkpoints)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return folder


def write_segments(replay: TensorDictReplayBuffer, folder: Path, *, saved: int) -> dict[str, str]:
    """Write the transitions that are not in files yet.

    Args:
        replay: the replay buffer.
        folder: the folder of the segments.
        saved: number of the first transition that is not saved.

    Returns:
        The checksums of the new files by name, oldest first.

    Raises:
        RunError: if a file cannot be written.
    """
    written, capacity = replay.write_count, replay.storage.max_size
    start = max(saved, written - capacity)
    files = {}
    while start < written:
        rows = _slots(replay, start, start + 1)
        size = sum(value.nbytes for value in rows.values(True, True))
        stop = min(written, start + max(1, _SEGMENT_BYTES // size))
        rows = _slots(replay, start, stop)
        content = safetensors.torch.save(
            {json.dumps(key): value.contiguous() for key, value in rows.items(True, True)}
        )
        name = f"segment_{start}-{stop}.safetensors"
        files[name] = write_atomically(folder / name, content)
        start = stop
    return files


def fill_replay(replay: TensorDictReplayBuffer, start: int, rows: TensorDictBase) -> None:
    """Put the transitions of a segment into a buffer, each in the slot it had.

    Args:
        replay: a buffer of the same capacity as the saved one, filled with the segments before.
        start: number of the first transition.
        rows: the transitions ``[n]``.
    """
    capacity = replay.storage.max_size
    start, rows = start + max(0, len(rows) - capacity), rows[-capacity:]
    replay.writer.load_state_dict({"_cursor": start % capacity, "_write_count": start})
    replay.extend(rows)


def _slots(replay: TensorDictReplayBuffer, start: int, stop: int) -> TensorDictBase:
    index = torch.arange(start, stop) % replay.storage.max_size
    return replay.storage.get(index).cpu()


def _remove_folder(folder: Path) -> None:
    """Delete a checkpoint; an interrupted deletion leaves nothing that looks like one."""
    doomed = folder.with_name(f".{folder.name}.removed.partial")
    with as_run_error(f"cannot remove {folder}"):
        shutil.rmtree(doomed, ignore_errors=True)
        os.rename(folder, doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def first_misfit(own: Mapping[str, Any], saved: Mapping[str, Any]) -> str:
    """Describe the first tensor that one state dict lacks, or has in another shape.

    Args:
        own: the state dict of the module.
        saved: the state dict of the file.

    Returns:
        A description, empty if all fit.

    >>> first_misfit({"w": torch.zeros(3), "b": torch.zeros(1)}, {"b": torch.zeros(2)})
    'b is [2] there and [1] here'
    """
    for name in sorted(own.keys() | saved.keys()):
        there, here = (
            list(getattr(state[name], "shape", ())) if name in state else "missing"
            for state in (saved, own)
        )
        # A run has reward weights only after it was given some.
        if there != here and not name.endswith("reward_weights.value"):
            return f"{name} is {there} there and {here} here"
    return ""


def loss_parts(loss: nn.Module) -> nn.Module:
    """Return a module with the networks of a loss, by the names of their parameters, and numbers.

    Args:
        loss: any loss module of TorchRL.
    """
    names = [name for name, _ in loss.named_children() if not name.startswith("target_")]
    parts: Any = nn.ModuleDict({n: getattr(loss, n.removesuffix("_params")) for n in names})
    for name in {"gamma", "reward_scale"} & {*vars(loss), *dict(loss.named_buffers())}:
        setattr(parts, name, float(getattr(loss, name)))  # a buffer where it follows a schedule
    return parts
