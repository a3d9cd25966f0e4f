"""Figures. matplotlib is imported when one is drawn; no global matplotlib state is touched."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from rlkit_sac.analysis.curves import learning_curves, select_rows
from rlkit_sac.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, distinguishable under every common colour vision deficiency.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINE_STYLES = ("-", "--", ":", "-.")  # one per round through the colors
FEW_POINTS = 50  # curves up to this length show their points


def plot_learning_curves(
    data: pd.DataFrame,
    *,
    episodes: pd.DataFrame | None = None,
    title: str | None = None,
    path: str | PathLike[str] | None = None,
) -> Figure:
    """Plot the return of deterministic evaluations over the frames of training.

    Each recipe and task is one line: the mean over its runs, with a band of one sample standard
    deviation to either side, as :func:`learning_curves` computes them. A single run is a thin line
    without a band.

    Args:
        data: the evaluations of one or more runs, from `load_runs(path)`.
        episodes: the training episodes, from `load_runs(path, table="episodes")`; each becomes a
            light dot. Default: none are drawn.
        title: the figure's title. Default: the task, if there is only one.
        path: where to save the figure; the suffix chooses the format, missing directories are
            created. Default: it is not saved.

    Returns:
        The matplotlib figure.

    Raises:
        ConfigError: matplotlib is not installed, or the tables lack columns or rows.

    Example:
        >>> data = pd.DataFrame({
        ...     "run": ["a", "a", "b", "b"], "recipe": "sac", "task": "Pendulum-v1",
        ...     "frames": [0, 100, 0, 100], "return_mean": [-1000.0, -200.0, -1200.0, -160.0],
        ... })
        >>> figure = plot_learning_curves(data)
        >>> figure.axes[0].get_xlabel()
        'frames (environment steps)'
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import EngFormatter
    except ImportError as error:
        raise ConfigError(
            "figures need matplotlib, which is not installed: pip install 'rlkit_sac[plots]'"
        ) from error

    curves = learning_curves(data)
    tasks = curves["task"].unique()
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for index, ((recipe, task), curve) in enumerate(curves.groupby(["recipe", "task"])):
        name = str(recipe) if len(tasks) == 1 else f"{recipe}, {task}"
        color = COLORS[index % len(COLORS)]
        line_style = LINE_STYLES[index // len(COLORS) % len(LINE_STYLES)]
        if episodes is not None:
            dots = select_rows(episodes, ["recipe", "task", "frames", "return"])
            dots = dots[(dots["recipe"] == recipe) & (dots["task"] == task)]
            _draw_episodes(axes, dots, name, color)
        _draw_curve(axes, curve, name, color, line_style)
    axes.set_xlabel("frames (environment steps)")
    axes.set_ylabel("return (deterministic evaluation)")
    axes.set_title(title if title is not None else str(tasks[0]) if len(tasks) == 1 else "")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
    return figure


def _draw_episodes(axes: Axes, dots: pd.DataFrame, name: str, color: str) -> None:
    label = f"{name} (training episodes)"
    axes.scatter(
        dots["frames"], dots["return"], s=6, color=color, alpha=0.3, linewidth=0, label=label
    )


def _draw_curve(axes: Axes, curve: pd.DataFrame, name: str, color: str, line_style: str) -> None:
    runs = int(curve["runs"].iloc[0])
    axes.plot(
        curve["frames"],
        curve["mean"],
        color=color,
        linestyle=line_style,
        linewidth=1 if runs == 1 else 2,
        marker="o" if len(curve) <= FEW_POINTS else None,
        markersize=3,
        label=f"{name} (1 run)" if runs == 1 else f"{name} (mean ± std of {runs} runs)",
    )
    if runs > 1:
        low, high = curve["mean"] - curve["std"], curve["mean"] + curve["std"]
        axes.fill_between(curve["frames"], low, high, color=color, alpha=0.2, linewidth=0)
