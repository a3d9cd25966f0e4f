"""The progress bar of a run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tqdm import tqdm


class ProgressBar:
    """A bar in frames that shows frames per second, the time left and some numbers.

    On a terminal it takes one line, cut to its width. Elsewhere, as in a file or a pipe, it writes
    a line every 30 seconds.

    Args:
        total_frames: frames of the whole run.
        enabled: ``False`` shows nothing.

    >>> with ProgressBar(100, enabled=False) as bar:
    ...     bar.update(50, {"evaluation": -150.0, "return": -120.0, "alpha": 0.2})
    """

    def __init__(self, total_frames: int, *, enabled: bool = True) -> None:
        self._on_terminal = enabled and sys.stderr.isatty()
        self._total = total_frames
        self._shown: Mapping[str, float] = {}
        self._bar = tqdm(
            total=total_frames,
            disable=not enabled,
            unit=" frames",
            unit_scale=True,
            dynamic_ncols=True,
            bar_format="{percentage:3.0f}%|{bar}| {rate_noinv_fmt}, {remaining}{postfix}",
            mininterval=0.1 if self._on_terminal else 30.0,
            miniters=1,  # by its default the bar stands still for seconds when updates begin
            delay=1e-9,  # nothing is shown before the first update
        )

    def start_at(self, frames: int) -> None:
        """Begin with the frames of earlier sessions; the speed shown counts later ones only."""
        self._bar.initial = self._bar.n = self._bar.last_print_n = frames

    def update(self, frames: int, shown: Mapping[str, float] | None = None) -> None:
        """Move the bar.

        Args:
            frames: frames of the run so far.
            shown: numbers to show from now on: ``return``, ``evaluation``, those whose name
                begins with ``alpha``, and others; ``None`` keeps those shown.
        """
        if shown is not None and shown != self._shown:
            self._shown = dict(shown)
            self._show_numbers()
        self._bar.update(min(frames, self._total) - self._bar.n)  # the last batch is whole

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Say on a terminal what is going on in the block, while the frames stand still.

        Args:
            name: such as ``"evaluating"``.
        """
        self._bar.set_postfix_str(name, refresh=self._on_terminal)
        try:
            yield
        finally:
            self._show_numbers()

    def _show_numbers(self) -> None:
        shown = self._shown
        alphas = [f"{shown[name]:.3g}" for name in shown if name.startswith("alpha")]
        numbers = {"return": _short(shown["return"])} if "return" in shown else {}
        if alphas:
            numbers["alpha"] = "/".join(alphas)
        if "evaluation" in shown:
            numbers["eval"] = _short(shown["evaluation"])
        others = (name for name in shown if not name.startswith(("alpha", "return", "evaluation")))
        numbers |= {name: _short(shown[name]) for name in others}
        self._bar.set_postfix(numbers, refresh=False)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()


def _short(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
