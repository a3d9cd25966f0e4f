"""The end of a run: its learning curve and its summary."""

from __future__ import annotations

from rlkit_sac.analysis import load_runs, plot_learning_curves
from rlkit_sac.errors import RlkitSacError
from rlkit_sac.runs.tables.log import TrainingLog
from rlkit_sac.runs.tables.progress import final_summary
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
    figure = run.figures / "learning_curve.png"
    try:
        episodes = load_runs(run.path, table="episodes")
        plot_learning_curves(
            load_runs(run.path), episodes=None if episodes.empty else episodes, path=figure
        )
    except (RlkitSacError, OSError) as error:
        return f"{summary}\n{error}"
    return f"{summary}\nlearning curve   {figure}"
