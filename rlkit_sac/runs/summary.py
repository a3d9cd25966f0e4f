"""What a run says at its end."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from rlkit_sac.analysis import load_runs, plot_learning_curves
from rlkit_sac.errors import RlkitSacError
from rlkit_sac.output import summary_table
from rlkit_sac.runs.directory import RunDirectory
from rlkit_sac.runs.log import TrainingLog


def report(run: RunDirectory, log: TrainingLog) -> str:
    """Draw ``figures/learning_curve.png`` and describe the run.

    Without matplotlib the description says how to get the figure.

    Args:
        run: a run with at least one evaluation.
        log: what the run counted.

    Returns:
        The text to print.
    """
    summary = final_summary(run.path, log)
    figure = run.path / "figures" / "learning_curve.png"
    try:
        episodes = load_runs(run.path, table="episodes")
        plot_learning_curves(
            load_runs(run.path), episodes=None if episodes.empty else episodes, path=figure
        )
        return f"{summary}\nlearning curve   {figure}"
    except (RlkitSacError, ImportError, OSError) as error:
        return f"{summary}\n{error}"


def final_summary(run: Path, log: TrainingLog) -> str:
    """Describe a finished run: last and best evaluation, cost, and where its files lie.

    Args:
        run: the run directory.
        log: what the run counted.
    """
    hours, rest = divmod(int(log.seconds), 3600)
    rate = log.frames / log.seconds
    rows = {
        "last evaluation": _evaluation(log, max(log.evaluations, default=None)),
        "best evaluation": _evaluation(log, log.best_evaluation()),
        "frames": f"{log.frames:,}",
        "updates": f"{log.updates:,}",
        "wall time": f"{hours}:{rest // 60:02}:{rest % 60:02} ({rate:,.0f} frames/s)",
        "peak memory": _peak_memory(),
        "results": str(run),
    }
    return summary_table(rows)


def _evaluation(log: TrainingLog, frames: int | None) -> str:
    if frames is None:
        return "none"
    mean, deviation, count = log.evaluations[frames]
    if count == 1:
        return f"{mean:.2f} (1 episode at frame {frames:,})"
    return f"{mean:.2f} ± {deviation:.2f} ({count} episodes at frame {frames:,})"


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
