"""When something is due, counted in frames and never by the clock."""

from __future__ import annotations


class UpdateSchedule:
    """Updates owed so far: ``utd_ratio`` for each frame after ``learning_starts``.

    Args:
        learning_starts: frames before the first update.
        utd_ratio: updates per frame; below 1 an update is due every few frames.

    >>> schedule = UpdateSchedule(learning_starts=10, utd_ratio=0.5)
    >>> [schedule.due(frames) for frames in (10, 11, 12, 16)]
    [0, 0, 1, 2]
    """

    def __init__(self, *, learning_starts: int, utd_ratio: float) -> None:
        self.learning_starts = learning_starts
        self.utd_ratio = utd_ratio
        self._made = 0

    def due(self, frames: int) -> int:
        """Updates to make now, after ``frames`` frames of the run."""
        owed = int(max(frames - self.learning_starts, 0) * self.utd_ratio) - self._made
        self._made += owed
        return owed


class Every:
    """True once for each multiple of an interval that the frames reach, and at the end of the run.

    Args:
        interval: frames.
        total_frames: frames of the run.

    >>> every = Every(10, total_frames=25)
    >>> [every.due(frames) for frames in (9, 10, 11, 24, 25)]
    [False, True, False, True, True]
    """

    def __init__(self, interval: int, *, total_frames: int) -> None:
        self.interval = interval
        self.total_frames = total_frames
        self._last = 0

    def due(self, frames: int) -> bool:
        """Whether a multiple of the interval, or the end, was reached since the last call."""
        reached = frames // self.interval > self._last // self.interval
        ended = self._last < self.total_frames <= frames
        self._last = frames
        return reached or ended
