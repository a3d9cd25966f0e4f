"""Figures. matplotlib is imported when one is drawn; no global matplotlib state is touched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from rlkit_sac.analysis.curves import learning_curves
from rlkit_sac.analysis.estimates import Statistic
from rlkit_sac.analysis.groups import Key, describe, grouping_columns, select_rows, split
from rlkit_sac.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# Okabe and Ito's palette, distinguishable under every common color vision deficiency.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINE_STYLES = ("-", "--", ":", "-.")  # one per round through the colors
FEW_POINTS = 50  # curves up to this length show their points
PANELS_PER_ROW = 3
_LABELS = {
    "return_mean": "return (deterministic evaluation)",
    "return": "return (training episodes)",
}


def plot_learning_curves(
    data: pd.DataFrame,
    *,
    column: str = "return_mean",
    by: str | Sequence[str] = ("recipe",),
    statistic: Statistic = "mean",
    confidence: float = 0.95,
    frames: int | Sequence[float] | None = None,
    episodes: pd.DataFrame | None = None,
    title: str | None = None,
    path: str | PathLike[str] | None = None,
) -> Figure:
    """Plot the return of evaluations, or another column, over the frames of training.

    Each task is a panel and each group a line, the same in all panels: the mean or interquartile
    mean over its runs with a band, the bootstrap interval, as :func:`learning_curves` computes
    them. A single run is a thin line without a band.

    Args:
        data: the evaluations of one or more runs, from `load_runs(path)`.
        column: the column to plot. Default `"return_mean"`.
        by: the grouping columns, such as `("recipe", "update.lr_actor")`. Default
            `("recipe",)`.
        statistic: `"mean"` (default) or `"iqm"`, the interquartile mean.
        confidence: level of the interval. Default 0.95.
        frames: where to interpolate, as for :func:`learning_curves`. Default: every frame at which
            any run of the group has a value.
        episodes: the training episodes, from `load_runs(path, table="episodes")` with the same
            `config`; each becomes a light dot. Default: none are drawn.
        title: the figure's title. Default: none; panels are titled by their task.
        path: where to save the figure; the suffix chooses the format, missing directories are
            created. Default: it is not saved.

    Returns:
        The matplotlib figure.

    Raises:
        ConfigError: matplotlib or, for several runs, scipy is not installed, or one of the reasons
            of :func:`learning_curves`.

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
        from matplotlib.lines import Line2D
    except ImportError as error:
        raise ConfigError(
            "figures need matplotlib, which is not installed: pip install 'rlkit_sac[plots]'"
        ) from error

    by = grouping_columns(by)
    curves = learning_curves(
        data, column=column, by=by, statistic=statistic, confidence=confidence, frames=frames
    )
    if episodes is not None:
        episodes = select_rows(episodes, ["task", "frames", "return"], by)
    tasks = list(curves["task"].unique())
    rows = math.ceil(len(tasks) / PANELS_PER_ROW)
    columns = math.ceil(len(tasks) / rows)
    width, height = (7.0, 4.4) if len(tasks) == 1 else (3.8 * columns, 3.0 * rows + 0.5)
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = {task: figure.add_subplot(rows, columns, 1 + k) for k, task in enumerate(tasks)}
    for index, (task, axes) in enumerate(panels.items()):
        _prepare(axes, str(task), _LABELS.get(column, column) if index % columns == 0 else "")
    handles = []
    groups = split(curves, by)
    for index, (key, group) in enumerate(groups):
        color = COLORS[index % len(COLORS)]
        style = LINE_STYLES[index // len(COLORS) % len(LINE_STYLES)]
        for task_key, curve in split(group, ["task"]):
            axes = panels[task_key["task"]]
            if episodes is not None:
                dots = _matching(episodes, {**key, **task_key})
                axes.scatter(
                    dots["frames"], dots["return"], s=6, color=color, alpha=0.3, linewidth=0
                )
            line = _draw_curve(axes, curve, color, style)
        line.set_label(f"{describe(key)} ({_count_runs(group)})")
        handles.append(line)
    if episodes is not None:
        gray = COLORS[0] if len(groups) == 1 else "0.5"
        label = "training episodes"
        handles.append(
            Line2D([], [], linestyle="", marker="o", markersize=3, color=gray, label=label)
        )
    for axes in panels.values():
        axes.set_xlim(left=0)
    name = "mean" if statistic == "mean" else "interquartile mean"
    interval = f"{100 * confidence:g}% bootstrap interval"
    longest = max(len(str(handle.get_label())) for handle in handles)
    per_row = max(1, min(len(handles), int(12 * width / (longest + 6))))
    figure.set_figheight(height + 0.25 * math.ceil(len(handles) / per_row))
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=per_row,
        title=f"{name} over runs, band: {interval}" if (curves["runs"] > 1).any() else None,
        frameon=False,
    )
    if title is not None:
        figure.suptitle(title)
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
    return figure


def _prepare(axes: Axes, title: str, label: str) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axes.set_title(title)
    axes.set_xlabel("frames (environment steps)")
    axes.set_ylabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_curve(axes: Axes, curve: pd.DataFrame, color: str, line_style: str) -> Line2D:
    several = int(curve["runs"].iloc[0]) > 1
    (line,) = axes.plot(
        curve["frames"],
        curve["value"],
        color=color,
        linestyle=line_style,
        linewidth=2 if several else 1,
        marker="o" if len(curve) <= FEW_POINTS else None,
        markersize=3,
    )
    if several:
        axes.fill_between(
            curve["frames"], curve["low"], curve["high"], color=color, alpha=0.2, linewidth=0
        )
    return line


def _matching(table: pd.DataFrame, key: Key) -> pd.DataFrame:
    """The rows that have the values of a key; a missing value matches missing ones."""
    for name, value in key.items():
        table = table[table[name].isna() if value is None else table[name] == value]
    return table


def _count_runs(group: pd.DataFrame) -> str:
    fewest, most = group["runs"].min(), group["runs"].max()
    count = f"{most}" if fewest == most else f"{fewest} to {most}"
    return f"{count} run" if most == 1 else f"{count} runs"
