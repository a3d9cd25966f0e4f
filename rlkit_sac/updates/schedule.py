"""Schedules of updates and other events, by counts of frames or at random."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.distributed import ProcessGroup

from rlkit_sac.updates.process_group import broadcast


class UpdateSchedule:
    """A schedule of ``utd_ratio`` updates for each frame after ``learning_starts``.

    Args:
        learning_starts: the number of frames before the first update.
        utd_ratio: updates per frame; below 1 an update is due every few frames.

    >>> schedule = UpdateSchedule(learning_starts=10, utd_ratio=0.5)
    >>> [schedule.due(frames, made=0) for frames in (10, 11, 12, 16)]
    [0, 0, 1, 3]
    """

    def __init__(self, *, learning_starts: int, utd_ratio: float) -> None:
        self.learning_starts = learning_starts
        self.utd_ratio = utd_ratio

    def due(self, frames: int, *, made: int) -> int:
        """Return the number of updates to make now.

        Args:
            frames: the frames of the run so far.
            made: the updates of the run so far.
        """
        return int(max(frames - self.learning_starts, 0) * self.utd_ratio) - made


class EveryFrames:
    """A schedule of an event that is due when the frames reach a multiple of an interval.

    Args:
        interval: the number of frames.

    >>> every = EveryFrames(10)
    >>> [every.due(before, frames) for before, frames in ((8, 9), (9, 10), (10, 11), (11, 35))]
    [False, True, False, True]
    """

    def __init__(self, interval: int) -> None:
        self.interval = interval

    def due(self, before: int, frames: int) -> bool:
        """Return whether a multiple lies in (``before``, ``frames``]."""
        return frames // self.interval > before // self.interval


@dataclass(eq=False, kw_only=True)
class ReplaySchedule:
    """A schedule of a fixed or random number of updates from replay after each batch of frames.

    Args:
        n_times_replay: the number of updates, or the mean number.
        poisson: whether to draw the number from a Poisson distribution, with torch's global
            generator.
        replay_start_size: the transitions in replay before the first update, over all processes.
        group: processes that make the same number of updates. All have the same number of
            transitions.

    >>> schedule = ReplaySchedule(n_times_replay=4, poisson=False, replay_start_size=100)
    >>> schedule.due(99), schedule.due(100)
    (0, 4)
    """

    n_times_replay: float
    poisson: bool
    replay_start_size: int
    group: ProcessGroup | None = None

    def due(self, stored: int) -> int:
        """Return the number of updates to make now.

        Args:
            stored: the number of transitions in the replay of this process.
        """
        processes = 1 if self.group is None else self.group.size()
        if stored * processes < self.replay_start_size:
            return 0
        if not self.poisson:
            return int(self.n_times_replay)
        number = torch.poisson(torch.tensor(float(self.n_times_replay)))
        if self.group is not None:
            broadcast([number], self.group)
        return int(number)
