"""Replay on disk: every transition is written once, in segments that checkpoints refer to.

Transitions are numbered from 0 in the order in which they were stored; number ``i`` lies in slot
``i % capacity`` of the buffer. A segment ``segment_<start>-<stop>.safetensors`` holds the numbers
``start`` to ``stop - 1``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import safetensors.torch
import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.data import TensorDictReplayBuffer

from rlkit_sac.runs.files import write_atomically

_SEGMENT_BYTES = 64 * 2**20


def segment_range(name: str) -> tuple[int, int]:
    """First number of a segment, and the one after its last.

    >>> segment_range("segment_0-500.safetensors")
    (0, 500)
    """
    start, stop = re.findall(r"\d+", name)
    return int(start), int(stop)


def write_segments(replay: TensorDictReplayBuffer, folder: Path, *, saved: int) -> list[Path]:
    """Write the transitions that are not in files yet.

    Args:
        replay: the buffer.
        folder: where the segments go; made where missing.
        saved: number of the first transition that is not saved.

    Returns:
        The new files, oldest first.

    Raises:
        RunError: if a file cannot be written.
    """
    written, capacity = replay.write_count, replay.storage.max_size
    start = max(saved, written - capacity)
    files = []
    while start < written:
        rows = _slots(replay, start, start + 1)
        size = sum(value.nbytes for value in rows.values(True, True))
        stop = min(written, start + max(1, _SEGMENT_BYTES // size))
        rows = _slots(replay, start, stop)
        content = safetensors.torch.save(
            {json.dumps(key): value.contiguous() for key, value in rows.items(True, True)}
        )
        files.append(folder / f"segment_{start}-{stop}.safetensors")
        write_atomically(files[-1], content)
        start = stop
    return files


def read_segments(replay: TensorDictReplayBuffer, segments: Iterable[tuple[Path, bytes]]) -> None:
    """Fill an empty buffer with segments, oldest first, each transition in the slot it had.

    Args:
        replay: a buffer of the capacity that the segments were written from.
        segments: files and their content.
    """
    capacity = replay.storage.max_size
    for file, content in segments:
        start, stop = segment_range(file.name)
        rows = segment_rows(content, stop - start)[max(0, stop - start - capacity) :]
        start = stop - len(rows)
        replay.writer.load_state_dict({"_cursor": start % capacity, "_write_count": start})
        replay.extend(rows)


def segment_rows(content: bytes, size: int) -> TensorDictBase:
    """The transitions ``[size]`` of a segment."""
    rows = TensorDict(batch_size=[size])
    for name, value in safetensors.torch.load(content).items():
        key = json.loads(name)
        rows.set(tuple(key) if isinstance(key, list) else key, value)
    return rows


def _slots(replay: TensorDictReplayBuffer, start: int, stop: int) -> TensorDictBase:
    index = torch.arange(start, stop) % replay.storage.max_size
    return replay.storage.get(index).cpu()
