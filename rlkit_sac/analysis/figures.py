"""Figures of learning curves and performance profiles.

matplotlib is imported when a figure is drawn; its global state is not changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pandas as pd

from rlkit_sac.analysis.curves import aggregate_curves
from rlkit_sac.analysis.estimates import Estimator, Statistic
from rlkit_sac.analysis.groups import (
    describe,
    select_rows,
    select_runs,
    split,
    split_comparable,
)
from rlkit_sac.errors import check_installed

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# Okabe and Ito's palette, distinguishable under every common color vision deficiency.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINE_STYLES = ("-", "--", ":", "-.")  # the next one when the colors are used up
FEW_POINTS = 50  # curves up to this length show their points
PANELS_PER_ROW = 3
SINGLE_PANEL = (7.0, 4.4)  # inches
_LABELS = {
    "return_mean": "return (deterministic evaluation)",
    "return": "return (training episodes)",
    "success_rate": "success rate (deterministic evaluation)",
}


def plot_learning_curves(
    data: pd.DataFrame,
    *,
    column: str = "return_mean",
    by: str | Sequence[str] | None = None,
    statistic: Statistic = "mean",
    confidence: float = 0.95,
    frames: int | Sequence[float] | None = None,
    episodes: pd.DataFrame | None = None,
    title: str | None = None,
    path: str | PathLike[str] | None = None,
) -> Figure:
    """Plot the return of evaluations, or another column, over the frames of training.

    Each task is a panel. Each group is a line of the same style in all panels: the mean or
    interquartile mean over the runs. The band is the bootstrap interval of
    :func:`learning_curves`. A single run is a thin line without a band.

    Only comparable runs are averaged. Runs that end 10 % or more before the longest run of their
    group, or were evaluated at another interval, are separate lines in the color of the group, with
    a warning.

    Args:
        data: the evaluations of one or more runs, from `load_runs(path)`.
        column: the column to plot. Default `"return_mean"`.
        by: the grouping columns, such as `("recipe", "update.lr_actor")`. Default: `recipe`, and
            `configuration` where the table has it.
        statistic: `"mean"` (default) or `"iqm"`, the interquartile mean.
        confidence: level of the interval. Default 0.95.
        frames: the frames at which runs are interpolated, as for :func:`learning_curves`; runs of
            different intervals are then averaged. Default: every frame at which any run of the line
            has a value.
        episodes: the training episodes, from `load_runs(path, table="episodes")` with the same
            `config`; each becomes a light dot. Default: none are drawn.
        title: the title of the figure. Default: none; each panel has the task as its title.
        path: the file to save the figure to. The suffix chooses the format, and missing directories
            are created. Default: the figure is not saved.

    Returns:
        The matplotlib figure.

    Raises:
        ConfigError: matplotlib is not installed, or one of the reasons of :func:`learning_curves`.

    Example:
        >>> data = pd.DataFrame({
        ...     "run": ["a", "a", "b", "b"], "recipe": "sac", "task": "Pendulum-v1",
        ...     "frames": [0, 100, 0, 100], "return_mean": [-1000.0, -200.0, -1200.0, -160.0],
        ... })
        >>> figure = plot_learning_curves(data)
        >>> figure.axes[0].get_xlabel()
        'frames (environment steps)'
    """
    selected, by = select_runs(data, column, by)
    lines = split_comparable(selected, by, same_interval=frames is None)
    curves = aggregate_curves(lines, column, frames, Estimator(statistic, confidence))
    dots = {}
    if episodes is not None and not episodes.empty:
        rows = select_rows(episodes, ["task", "frames", "return"], by)
        dots = {tuple(key.values()): group for key, group in split(rows, [*by, "task"])}
    tasks = list(curves["task"].unique())
    height = math.ceil(len(tasks) / PANELS_PER_ROW)
    width = math.ceil(len(tasks) / height)
    size = SINGLE_PANEL if len(tasks) == 1 else (3.8 * width, 3.0 * height + 0.5)
    figure = _empty_figure(*size)
    panels = {task: figure.add_subplot(height, width, 1 + k) for k, task in enumerate(tasks)}
    for index, (task, axes) in enumerate(panels.items()):
        label = _LABELS.get(column, column) if index % width == 0 else ""
        _style_axes(axes, "frames (environment steps)", label)
        _scale_frames(axes)
        axes.set_title(str(task))
    handles: list[Artist] = []
    groups = split(curves, by)
    for index, (key, group) in enumerate(groups):
        color, style = group_style(index)
        for task_key, task_rows in split(group, ["task"]):
            axes = panels[task_key["task"]]
            ends = dots.get((*key.values(), *task_key.values()))
            if ends is not None:
                axes.scatter(
                    ends["frames"], ends["return"], s=6, color=color, alpha=0.3, linewidth=0
                )
            # The line of the most runs is drawn last, above the others.
            for line_key, curve in reversed(split(task_rows, ["line"])):
                alpha = 0.6 if line_key["line"] else 1.0
                line = _draw_curve(axes, curve, "frames", color, style, alpha=alpha)
        line.set_label(f"{describe(key)} ({count_text(group['runs'], 'run')})")
        handles.append(line)
    if dots:
        gray = COLORS[0] if len(groups) == 1 else "0.5"
        handles.append(axes.scatter([], [], s=9, color=gray, label="training episodes"))
    for axes in panels.values():
        axes.set_xlim(left=0)
    heading = f"{statistic} over runs, band: {100 * confidence:g}% bootstrap interval"
    several = (curves["runs"] > 1).any()
    _finish_figure(figure, handles, heading if several else None, title, path)
    return figure


def plot_performance_profiles(
    profiles: pd.DataFrame, *, title: str | None = None, path: str | PathLike[str] | None = None
) -> Figure:
    """Plot the share of runs whose normalized score is above each threshold.

    Each group is a line in steps, with the pointwise bootstrap interval as a band.

    Args:
        profiles: the table of :func:`performance_profiles`.
        title: the title of the figure. Default: none.
        path: the file to save the figure to, as for :func:`plot_learning_curves`. Default: the
            figure is not saved.

    Returns:
        The matplotlib figure.

    Raises:
        ConfigError: the table has no rows or lacks a column, or matplotlib is not installed.

    Example:
        >>> profiles = pd.DataFrame({
        ...     "recipe": "sac", "tau": [0.5, 0.7], "value": [0.5, 0.0], "low": [0.0, 0.0],
        ...     "high": [1.0, 0.0], "tasks": 1, "runs": 2,
        ... })
        >>> plot_performance_profiles(profiles).axes[0].get_ylabel()
        'share of runs with score > τ'
    """
    result_columns = ["tau", "value", "low", "high", "tasks", "runs"]
    by = [name for name in profiles.columns if name not in result_columns]
    rows = select_rows(profiles, ["tau", "value"], by)
    figure = _empty_figure(*SINGLE_PANEL)
    axes = figure.add_subplot()
    _style_axes(axes, "normalized score τ", "share of runs with score > τ")
    handles = []
    for index, (key, group) in enumerate(split(rows, by)):
        line = _draw_curve(axes, group, "tau", *group_style(index), step="post")
        line.set_label(f"{describe(key)} ({count_text(group['runs'], 'run')})")
        handles.append(line)
    _finish_figure(figure, handles, "mean over tasks, band: bootstrap interval", title, path)
    return figure


def _empty_figure(width: float, height: float) -> Figure:
    check_installed("matplotlib", extra="plots")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _finish_figure(
    figure: Figure,
    handles: Sequence[Artist],
    heading: str | None,
    title: str | None,
    path: str | PathLike[str] | None,
) -> None:
    """Add the legend and the title, and save the figure."""
    width, height = figure.get_size_inches()
    longest = max(len(str(handle.get_label())) for handle in handles)
    per_row = max(1, min(len(handles), int(12 * width / (longest + 6))))
    figure.set_figheight(height + 0.25 * math.ceil(len(handles) / per_row))
    figure.legend(
        handles=handles, loc="outside lower center", ncols=per_row, title=heading, frameon=False
    )
    if title is not None:
        figure.suptitle(title)
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)


def group_style(index: int) -> tuple[str, str]:
    """Return the color and the line style of a group."""
    styles = LINE_STYLES[index // len(COLORS) % len(LINE_STYLES)]
    return COLORS[index % len(COLORS)], styles


def _scale_frames(axes: Axes) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _style_axes(axes: Axes, x_label: str, y_label: str) -> None:
    axes.set(xlabel=x_label, ylabel=y_label)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_curve(
    axes: Axes,
    curve: pd.DataFrame,
    x: str,
    color: str,
    line_style: str,
    *,
    alpha: float = 1.0,
    step: Literal["post"] | None = None,
) -> Line2D:
    several = int(curve["runs"].iloc[0]) > 1
    (line,) = axes.plot(
        curve[x],
        curve["value"],
        color=color,
        linestyle=line_style,
        drawstyle=f"steps-{step}" if step else "default",
        alpha=alpha,
        linewidth=2 if several else 1,
        marker="o" if len(curve) <= FEW_POINTS and not step else None,
        markersize=3,
    )
    if several:
        axes.fill_between(
            curve[x], curve["low"], curve["high"], step=step, color=color, alpha=0.2, linewidth=0
        )
    return line


def count_text(counts: pd.Series[int] | list[int], unit: str) -> str:
    """Return numbers with their unit, such as "1 run", or "2 to 3 runs" if they differ."""
    fewest, most = min(counts), max(counts)
    count = f"{most}" if fewest == most else f"{fewest} to {most}"
    return f"{count} {unit}" if most == 1 else f"{count} {unit}s"
