"""The end of a run: its learning curve and its summary."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from rlkit_sac.analysis import load_runs, plot_learning_curves
from rlkit_sac.errors import RlkitSacError
from rlkit_sac.runs.tables.evaluations import best_frames, read_evaluations
from rlkit_sac.runs.tables.log import TrainingLog
from rlkit_sac.runs.tables.run_directory import RunDirectory


def report(run: RunDirectory, log: TrainingLog) -> str:
    """Draw ``figures/learning_curve.png`` and describe the run.

    Without matplotlib the description says how to get the figure.

    Args:
        run: a run with at least one evaluation.
        log: what the run counted.

    Returns:
        The text to print.
    """
    summary = final_summary(run.path, frames=log.frames, updates=log.updates, seconds=log.seconds)
    figure = run.path / "figures" / "learning_curve.png"
    try:
        episodes = load_runs(run.path, table="episodes")
        plot_learning_curves(
            load_runs(run.path), episodes=None if episodes.empty else episodes, path=figure
        )
        return f"{summary}\nlearning curve   {figure}"
    except (RlkitSacError, OSError) as error:
        return f"{summary}\n{error}"


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
    evaluations = {row["frames"]: row for row in read_evaluations(run).to_dict("records")}
    last, best = max(evaluations, default=None), best_frames(run, among=evaluations)
    hours, rest = divmod(int(seconds), 3600)
    rate = frames / seconds if seconds > 0 else 0.0
    rows = {
        "last evaluation": "none" if last is None else _evaluation(evaluations[last]),
        "best evaluation": "none" if best is None else _evaluation(evaluations[best]),
        "frames": f"{frames:,}",
        "updates": f"{updates:,}",
        "wall time": f"{hours}:{rest // 60:02}:{rest % 60:02} ({rate:,.0f} frames/s)",
        "peak memory": _peak_memory(),
        "results": str(run),
    }
    return summary_table(rows)


def _evaluation(row: Mapping[Any, Any]) -> str:
    mean, count, at = f"{row['return_mean']:.2f}", row["episodes"], f"at frame {row['frames']:,}"
    if count == 1:
        return f"{mean} (1 episode {at})"
    return f"{mean} ± {row['return_std']:.2f} ({count} episodes {at})"


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
