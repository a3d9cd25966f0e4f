"""Replay on disk: every transition is written once, in segments that checkpoints refer to.

Transitions are numbered from 0 in the order in which they were stored; number ``i`` lies in slot
``i % capacity`` of the buffer. A segment ``segment_<start>-<stop>.safetensors`` holds the numbers
``start`` to ``stop - 1``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import safetensors.torch
import torch
from tensordict import NestedKey, TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import TensorDictReplayBuffer

from rlkit_sac.errors import RunError
from rlkit_sac.runs.files import write_atomically
from rlkit_sac.runs.misfits import misfits

_SEGMENT_BYTES = 64 * 2**20
_NAME = re.compile(r"segment_([0-9]{1,18})-([0-9]{1,18})\.safetensors")


def segment_range(file: Path) -> tuple[int, int] | None:
    """First number of a segment and the one after its last; ``None`` for any other file.

    >>> segment_range(Path("replay/segment_0-500.safetensors"))
    (0, 500)
    """
    match = _NAME.fullmatch(file.name)
    return (int(match[1]), int(match[2])) if match else None


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


def check_segments(names: Iterable[str], *, stored: int, capacity: int) -> None:
    """Refuse names of segments other than those that a checkpoint needs, in their order.

    Args:
        names: of the segments.
        stored: transitions that were stored in all.
        capacity: of the buffer, which holds the last of them.

    Raises:
        RunError: naming the transitions that are wanted.

    >>> check_segments(["segment_0-50.safetensors"], stored=80, capacity=30)
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.RunError: its replay segments are not those of the transitions 50 to 80
    """
    oldest, stops = max(0, stored - capacity), [0]
    ranges = [bounds for name in names if (bounds := segment_range(Path(name)))]
    for start, stop in ranges:
        is_next = start <= oldest if (start, stop) == ranges[0] else start == stops[-1]
        if is_next and max(start, oldest) < stop <= stored:
            stops.append(stop)
    if len(stops) <= len(ranges) or stops[-1] != stored:
        raise RunError(f"its replay segments are not those of the transitions {oldest} to {stored}")


def read_segments(replay: TensorDictReplayBuffer, segments: Iterator[tuple[Path, bytes]]) -> None:
    """Fill an empty buffer with segments, oldest first, each transition in the slot it had.

    Args:
        replay: a buffer of the capacity that the segments were written from.
        segments: files and their content.

    Raises:
        RunError: naming a file whose entries are not those of the buffer's ``layout``.
    """
    layout: Mapping[NestedKey, Tensor] = getattr(replay, "layout", {})
    for file, content in segments:
        bounds = segment_range(file)
        assert bounds is not None
        start, stop = bounds
        rows, length = TensorDict(batch_size=[stop - start]), (stop - start,)
        try:
            for name, value in safetensors.torch.load(content).items():
                key = json.loads(name)
                rows.set(tuple(key) if isinstance(key, list) else key, value)
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise RunError(f"{file} holds no {stop - start} transitions: {error!s:.200}") from error
        wanted = {str(key): row.expand(length + row.shape) for key, row in layout.items()}
        # Values are copied into the buffer, where those of another shape might be repeated.
        found = {str(key): value for key, value in rows.items(True, True) if str(key) in wanted}
        if misfit := misfits(wanted, found, exactly=True):
            raise RunError(f"{file} does not hold transitions of this run: {misfit}")
        capacity = replay.storage.max_size
        rows = rows[max(0, stop - start - capacity) :]
        start = stop - len(rows)
        replay.writer.load_state_dict({"_cursor": start % capacity, "_write_count": start})
        replay.extend(rows)


def _slots(replay: TensorDictReplayBuffer, start: int, stop: int) -> TensorDictBase:
    index = torch.arange(start, stop) % replay.storage.max_size
    return replay.storage.get(index).cpu()
