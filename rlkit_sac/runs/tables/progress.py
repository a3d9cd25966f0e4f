"""The progress bar of a run, and the summary at its end."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import torch
from tqdm import tqdm

from rlkit_sac.runs.tables.best import best_frames


class ProgressBar:
    """A bar in frames that shows the frames per second and a few named numbers.

    Args:
        total_frames: frames of the whole run.
        enabled: ``False`` shows nothing.

    >>> with ProgressBar(100, enabled=False) as bar:
    ...     bar.update(50, {"return": -120.0, "alpha": 0.2})
    """

    def __init__(self, total_frames: int, *, enabled: bool = True) -> None:
        self._bar = tqdm(
            total=total_frames,
            unit=" frames",
            disable=not enabled,
            dynamic_ncols=True,
            # A file or a pipe keeps every state of the bar: one in a while is enough there.
            mininterval=0.1 if sys.stderr.isatty() else 30.0,
        )
        self._frames = 0
        self._shown: Mapping[str, float] = {}

    def start_at(self, frames: int) -> None:
        """Begin with the frames of earlier sessions; the speed shown counts later ones only."""
        self._bar.initial = self._bar.n = self._frames = frames

    def update(self, frames: int, shown: Mapping[str, float] | None = None) -> None:
        """Move the bar.

        Args:
            frames: frames of the run so far.
            shown: numbers to show from now on; ``None`` keeps those shown.
        """
        if shown is not None and shown != self._shown:
            self._shown = dict(shown)
            text = {name: f"{value:.4g}" for name, value in shown.items()}
            self._bar.set_postfix(text, refresh=False)
        self._bar.update(frames - self._frames)
        self._frames = frames

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.close()


def summary_table(rows: Mapping[str, str]) -> str:
    """Lay out names and values in two aligned columns.

    >>> print(summary_table({"frames": "500", "wall time": "3 s"}))
    frames     500
    wall time  3 s
    """
    width = max(len(name) for name in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows.items())


def final_summary(run: Path, *, frames: int, updates: int, seconds: float) -> str:
    """Describe a finished run: last and best evaluation, cost, and where its files lie.

    Args:
        run: the run directory; its ``evaluations.csv`` is read.
        frames: frames collected.
        updates: gradient updates made.
        seconds: wall time.

    >>> print(final_summary(Path("no-run"), frames=10, updates=0, seconds=61.5))
    last evaluation  none
    ...
    wall time        0:01:01 (0 frames/s)
    ...
    """
    file = run / "evaluations.csv"
    evaluations: list[dict[str, str]] = []
    if file.exists():
        with file.open(newline="") as lines:
            evaluations = list(csv.DictReader(lines))
    rows = {"last evaluation": "none", "best evaluation": "none"}
    if evaluations:
        rows["last evaluation"] = _evaluation(evaluations[-1])
        by_frames = {int(row["frames"]): row for row in evaluations}
        best = best_frames(run, among=by_frames)
        if best is not None:
            rows["best evaluation"] = _evaluation(by_frames[best])
    hours, rest = divmod(int(seconds), 3600)
    rate = frames / seconds if seconds > 0 else 0.0
    rows |= {
        "frames": f"{frames:,}",
        "updates": f"{updates:,}",
        "wall time": f"{hours}:{rest // 60:02}:{rest % 60:02} ({rate:,.0f} frames/s)",
        "peak memory": _peak_memory(),
        "results": str(run),
    }
    return summary_table(rows)


def _evaluation(row: Mapping[str, str]) -> str:
    mean, std = float(row["return_mean"]), float(row["return_std"])
    return f"{mean:.2f} ± {std:.2f} ({row['episodes']} episodes at frame {int(row['frames']):,})"


def _peak_memory() -> str:
    parts = []
    if sys.platform != "win32":
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak *= 1 if sys.platform == "darwin" else 1024  # bytes there, KiB elsewhere
        parts.append(f"{peak / 2**20:,.0f} MiB")
    if torch.cuda.is_initialized():
        parts.append(f"{torch.cuda.max_memory_allocated() / 2**20:,.0f} MiB on the GPU")
    return ", ".join(parts) or "unknown"
