"""Learning curves as numbers and as figures.

matplotlib is imported when a figure is drawn; no global matplotlib state is touched.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlkit_sac.analysis.estimates import Estimator, Floats, Statistic
from rlkit_sac.analysis.groups import (
    Key,
    comparable_runs,
    describe,
    select_rows,
    select_runs,
    split,
    warn_of_early_ends,
)
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


def learning_curves(
    data: pd.DataFrame,
    *,
    column: str = "return_mean",
    by: str | Sequence[str] = ("recipe",),
    statistic: Statistic = "mean",
    frames: int | Sequence[float] | None = None,
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> pd.DataFrame:
    r"""Aggregate a column over the runs of each task and group, frame by frame.

    Runs may have been evaluated at different frames. Each run is interpolated linearly at common
    frames, within the range that all runs of its group cover; no run is extrapolated. So a run
    that stopped early shortens the curve of its group, with a warning that names it.

    With the interpolated values :math:`x_i` of :math:`n` runs, `value` is the mean
    :math:`\frac1n \sum_i x_i`, or the interquartile mean: the mean of what is left without the
    :math:`\lfloor n/4 \rfloor` lowest and as many highest values, as of
    `scipy.stats.trim_mean(x, 0.25)`. With fewer than 4 runs both are the same. `low` and `high`
    are the ends of its percentile bootstrap interval: runs, not points, are resampled, so all
    frames of a curve see the same resamples. Intervals of few runs are rough; for 2 or 3 runs the
    95 % interval of the mean is their range.

    Args:
        data: a table of :func:`load_runs` with the columns `run`, `task`, `frames`, `column` and
            those of `by`. Rows in which `column` is NaN are left out.
        column: the column to aggregate. Default `"return_mean"`.
        by: the grouping columns besides the task; columns of the configuration make
            a curve of each setting. Default `("recipe",)`.
        statistic: `"mean"` (default) or `"iqm"`, the interquartile mean.
        frames: where to interpolate: a number of evenly spaced points, or the frames, of which
            those outside the common range are left out. Default: every frame at which any run of
            the group has a value.
        confidence: level of the interval. Default 0.95.
        resamples: number of bootstrap resamples. Default 9999.
        seed: seed of the resamples. Default 0.

    Returns:
        A table with the columns `task`, those of `by`, `frames`, `value`, `low`, `high` (NaN for a
        single run) and `runs` (how many runs were aggregated), ordered by task, `by` and frames.

    Raises:
        ConfigError: a column is missing, there are no rows, the runs of a group share no frames, an
            argument is out of its range, or scipy is needed and not installed.

    Example:
        >>> data = pd.DataFrame({
        ...     "run": ["a", "a", "b", "b"], "recipe": "sac", "task": "Pendulum-v1",
        ...     "frames": [0, 100, 0, 100], "return_mean": [-1000.0, -200.0, -1200.0, -160.0],
        ... })
        >>> learning_curves(data)[["frames", "value", "low", "high", "runs"]]
           frames   value     low    high  runs
        0       0 -1100.0 -1200.0 -1000.0     2
        1     100  -180.0  -200.0  -160.0     2
    """
    estimator = Estimator(statistic, confidence, resamples, seed)
    rows, by = select_runs(data, column, by)
    groups = split(rows, ["task", *by])
    for key, group in groups:
        warn_of_early_ends(group, describe(key), "the curve stops there")
    return _aggregate(groups, column, frames, estimator)


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

    Only runs that can be compared are averaged: runs of a group that end 10 % or more before its
    longest, or were evaluated at another interval, are drawn as lines of their own in the color of
    the group, with a warning.

    Args:
        data: the evaluations of one or more runs, from `load_runs(path)`.
        column: the column to plot. Default `"return_mean"`.
        by: the grouping columns, such as `("recipe", "update.lr_actor")`. Default
            `("recipe",)`.
        statistic: `"mean"` (default) or `"iqm"`, the interquartile mean.
        confidence: level of the interval. Default 0.95.
        frames: where to interpolate, as for :func:`learning_curves`; runs of different intervals
            are then averaged. Default: every frame at which any run of the line has a value.
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

    selected, by = select_runs(data, column, by)
    lines, differing = [], []
    for key, group in split(selected, ["task", *by]):
        sets = comparable_runs(group, same_interval=frames is None)
        lines += [({**key, "line": number}, part) for number, part in enumerate(sets)]
        if len(sets) > 1:
            ends = [(x["run"].nunique(), x["frames"].max(), x["run"].iloc[0]) for x in sets]
            text = ", ".join(f"{runs} to frame {end} ({first})" for runs, end, first in ends)
            differing.append(f"{describe(key)}: {text}")
    if differing:
        warnings.warn(
            "runs of a group that differ in length or interval are drawn as lines of their own: "
            f"{'; '.join(differing)}; select runs, or tell settings apart with by=",
            stacklevel=2,
        )
    curves = _aggregate(lines, column, frames, Estimator(statistic, confidence))
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
        for task_key, of_task in split(group, ["task"]):
            axes = panels[task_key["task"]]
            if episodes is not None:
                dots = _matching(episodes, {**key, **task_key})
                axes.scatter(
                    dots["frames"], dots["return"], s=6, color=color, alpha=0.3, linewidth=0
                )
            drawn = [
                _draw_curve(axes, curve, color, style, alpha=0.6 if line_key["line"] else 1.0)
                for line_key, curve in split(of_task, ["line"])
            ]
        drawn[0].set_label(f"{describe(key)} ({_count_runs(group)})")
        handles.append(drawn[0])
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


def _aggregate(
    groups: Sequence[tuple[Key, pd.DataFrame]],
    column: str,
    frames: int | Sequence[float] | None,
    estimator: Estimator,
) -> pd.DataFrame:
    """One curve for each group, as a table that begins with the columns of the keys."""
    keys, parts = [], []
    for key, group in groups:
        points, values = _on_common_frames(group, column, frames, describe(key))
        low, high = estimator.interval(values)
        curve = {"frames": points, "value": estimator.value(values), "low": low, "high": high}
        parts.append(pd.DataFrame(curve).assign(runs=values.shape[-1]))
        keys += [key] * len(points)
    curves = pd.concat(parts, ignore_index=True)
    for index, name in enumerate(groups[0][0]):
        curves.insert(index, name, [key[name] for key in keys])
    return curves


def _on_common_frames(
    group: pd.DataFrame, column: str, frames: int | Sequence[float] | None, name: str
) -> tuple[NDArray[Any], Floats]:
    """The common frames of a group, and the values of its runs there as `[frames, runs]`."""
    # Environments that are stepped together may end episodes at the same frame: these are averaged.
    runs = {str(k): run.groupby("frames")[column].mean() for k, run in group.groupby("run")}
    first = max(run.index[0] for run in runs.values())
    last = min(run.index[-1] for run in runs.values())
    if first > last:
        ranges = "; ".join(f"{run}: {x.index[0]} to {x.index[-1]}" for run, x in runs.items())
        raise ConfigError(f"the runs of {name} share no frames ({ranges}); leave some out")
    points = _points(frames, np.unique(group["frames"].to_numpy()), first, last)
    if not len(points):
        raise ConfigError(f"none of frames lies in the range of {name}, {first} to {last}")
    return points, np.stack([np.interp(points, x.index, x) for x in runs.values()], axis=-1)


def _points(
    frames: int | Sequence[float] | None, union: NDArray[Any], first: float, last: float
) -> NDArray[Any]:
    if frames is None:
        points = union
    elif isinstance(frames, (int, np.integer)):
        if frames < 2:
            raise ConfigError(f"frames is {frames}; a curve needs at least 2 points")
        points = np.linspace(first, last, frames)
        if union.dtype.kind in "iu":
            points = np.unique(points.round().astype(union.dtype))
    else:
        points = np.unique(np.asarray(frames))
    return points[(points >= first) & (points <= last)]


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


def _draw_curve(
    axes: Axes, curve: pd.DataFrame, color: str, line_style: str, alpha: float
) -> Line2D:
    several = int(curve["runs"].iloc[0]) > 1
    (line,) = axes.plot(
        curve["frames"],
        curve["value"],
        color=color,
        linestyle=line_style,
        alpha=alpha,
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
    """How many runs and lines a group has on each task."""
    lines = group.drop_duplicates(["task", "line"]).groupby("task")["runs"]
    runs = _range(lines.sum(), "run")
    return f"{runs}, {_range(lines.size(), 'line')}" if lines.size().max() > 1 else runs


def _range(counts: pd.Series[int], unit: str) -> str:
    fewest, most = counts.min(), counts.max()
    count = f"{most}" if fewest == most else f"{fewest} to {most}"
    return f"{count} {unit}" if most == 1 else f"{count} {unit}s"
