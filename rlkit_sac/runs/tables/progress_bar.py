"""The progress bar of a run: one line that fits the terminal."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

#: Room for a line from which on it has a bar, and how long that is at least.
_BAR_FROM, _BAR_WIDTH = 40, 5
_NUMBERS = ("evaluation", "return")


class ProgressBar:
    """A bar in frames that shows some numbers, the time left and the frames per second.

    On a terminal it takes one line, and what does not fit is left out from its end: first the
    count of frames, last the return of the latest evaluation. Elsewhere, as in a file or a pipe, it
    writes a whole line every 30 seconds.

    Args:
        total_frames: frames of the whole run.
        enabled: ``False`` shows nothing.

    >>> with ProgressBar(100, enabled=False) as bar:
    ...     bar.update(50, {"evaluation": -150.0, "return": -120.0, "alpha": 0.2})
    """

    def __init__(self, total_frames: int, *, enabled: bool = True) -> None:
        self._on_terminal = enabled and sys.stderr.isatty()
        self._line = _Line(
            total=total_frames,
            disable=not enabled,
            nrows=24,  # else it shows nothing in a terminal that does not tell its size
            # A file or a pipe keeps every state of the bar: one in a while is enough there.
            mininterval=0.1 if self._on_terminal else 30.0,
            miniters=1,  # by its default the bar stands still for seconds when updates begin
            delay=1e-9,  # nothing is shown before the first update
        )

    def start_at(self, frames: int) -> None:
        """Begin with the frames of earlier sessions; the speed shown counts later ones only."""
        self._line.initial = self._line.n = self._line.last_print_n = frames

    def update(self, frames: int, shown: Mapping[str, float] | None = None) -> None:
        """Move the bar.

        Args:
            frames: frames of the run so far.
            shown: numbers to show from now on: ``evaluation`` and ``return``, and any whose name
                begins with ``alpha``; ``None`` keeps those shown.
        """
        if shown is not None:
            self._line.shown = shown
        self._line.update(frames - self._line.n)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Say on a terminal what is going on in the block, while the frames stand still.

        Args:
            name: such as ``"evaluating"``.
        """
        self._show_phase(name)
        try:
            yield
        finally:
            self._show_phase("")

    def _show_phase(self, name: str) -> None:
        self._line.phase = name
        if self._on_terminal:
            self._line.refresh()

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *error: object) -> None:
        self._line.close()


class _Line(tqdm):  # type: ignore[type-arg]
    monitor_interval = 0  # its thread is only for other `miniters`
    phase = ""
    shown: Mapping[str, float] = {}

    def __str__(self) -> str:
        facts: dict[str, Any] = dict(self.format_dict)
        columns = _columns()
        room = columns or sys.maxsize
        has_bar = room >= _BAR_FROM
        line = "{percentage:3.0f}%" + ("|{bar}|" if has_bar else "")
        room -= len("100%") + (len("||") + _BAR_WIDTH if has_bar else 0)
        before = " "
        for item in self._items(facts):
            room -= len(before + item)
            if room < 0:
                break
            line += before + item
            before = ", "
        done = min(facts["n"], facts["total"])  # the last batch is whole
        return self.format_meter(**facts | {"n": done, "ncols": columns, "bar_format": line})

    def _items(self, facts: Mapping[str, Any]) -> list[str]:
        """What may stand beside the bar, the most important first."""
        shown, frames, total, seconds = self.shown, facts["n"], facts["total"], facts["elapsed"]
        numbers = [f"{name} {_short(shown[name])}" for name in _NUMBERS if name in shown]
        alphas = "/".join(f"{shown[name]:.3g}" for name in shown if name.startswith("alpha"))
        rate = facts["rate"] or ((frames - facts["initial"]) / seconds if seconds else 0.0)
        left = (total - frames) / rate if rate else 0.0
        items = [
            self.phase,
            *numbers,
            f"{self.format_interval(left)} left" if left > 0 else "",
            f"alpha {alphas}" if alphas else "",
            f"{rate:.{0 if rate >= 10 else 1}f} fps" if rate else "",
            f"{frames}/{total}",
        ]
        return [item for item in items if item]


_Line.set_lock(threading.RLock())  # for the default, which processes share, one more would start


def _columns() -> int | None:
    """Room for the line, with some for the echo of Ctrl-C behind it; ``None`` in a file."""
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return None
    return max(1, (columns or 80) - len("^C"))


def _short(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
