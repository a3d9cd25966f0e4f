"""Learning curves: a column over the frames of training, aggregated over runs.

Two numbers say how fast runs learn: the area under the curve, and the frames to a threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlkit_sac.analysis.estimates import Estimator, Floats, Median, Statistic
from rlkit_sac.analysis.groups import Key, describe, join, select_runs, split, warn_early_ends
from rlkit_sac.errors import ConfigError


def learning_curves(
    data: pd.DataFrame,
    *,
    column: str = "return_mean",
    by: str | Sequence[str] | None = None,
    statistic: Statistic = "mean",
    frames: int | Sequence[float] | None = None,
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> pd.DataFrame:
    r"""Aggregate a column over the runs of each task and group, frame by frame.

    Runs may have been evaluated at different frames. Each run is interpolated linearly at common
    frames, within the range that all runs of the group cover; no run is extrapolated. A run that
    stopped early shortens the curve of its group, and a warning names the run.

    With the interpolated values :math:`x_i` of :math:`n` runs, `value` is the mean
    :math:`\frac1n \sum_i x_i`, or the interquartile mean: the mean without the
    :math:`\lfloor n/4 \rfloor` lowest and the :math:`\lfloor n/4 \rfloor` highest values, as in
    `scipy.stats.trim_mean(x, 0.25)`. With fewer than 4 runs both are the same. `low` and `high`
    are the ends of the percentile bootstrap interval: runs, not points, are resampled, so all
    frames of a curve see the same resamples. Intervals of few runs are rough; for 2 or 3 runs the
    95 % interval of the mean is their range.

    Args:
        data: a table of :func:`load_runs` with the columns `run`, `task`, `frames`, `column` and
            the columns in `by`. Rows in which `column` is NaN are left out.
        column: the column to aggregate. Default `"return_mean"`.
        by: the grouping columns besides the task; options as columns make a curve of each setting.
            Default: `recipe`, and `configuration` where the table has it.
        statistic: `"mean"` (default) or `"iqm"`, the interquartile mean.
        frames: the number of evenly spaced frames at which runs are interpolated, or these frames
            themselves; frames outside the common range are left out. Default: every frame at which
            any run of the group has a value.
        confidence: level of the interval. Default 0.95.
        resamples: number of bootstrap resamples. Default 9999.
        seed: seed of the resamples. Default 0.

    Returns:
        A table with the columns `task`, the columns in `by`, `frames`, `value`, `low`, `high` (NaN
        for a single run) and `runs` (the number of runs), ordered by task, `by` and frames.

    Raises:
        ConfigError: a column is missing, there are no rows, the runs of a group share no frames, or
            an argument is out of its range.

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
        warn_early_ends(group, describe(key), "the curve stops there")
    return aggregate_curves(groups, column, frames, estimator)


def area_under_curve(
    data: pd.DataFrame,
    *,
    column: str = "return_mean",
    by: str | Sequence[str] | None = None,
    statistic: Statistic = "mean",
    confidence: float = 0.95,
) -> pd.DataFrame:
    r"""Tabulate the mean height of the learning curves of each task and group.

    The curve :math:`x_i(f)` of run :math:`i` is linear between evaluations. The area under it is

    .. math::
        \frac1{b - a} \int_a^b x_i(f) \, df,

    the mean return over the frames :math:`a` to :math:`b`. All runs on the task cover these frames,
    so that the groups of a task can be compared. The trapezoidal rule is exact. For the first part
    of training only, select `data[data["frames"] <= 50_000]`.

    Args:
        data: a table of :func:`load_runs`, as for :func:`learning_curves`.
        column: the column of the curves. Default `"return_mean"`.
        by: the grouping columns besides the task. Default: `recipe`, and `configuration` where the
            table has it.
        statistic: `"mean"` (default) or `"iqm"`, the interquartile mean, over the runs of a group.
        confidence: level of the interval. Default 0.95.

    Returns:
        A table with one row for each task and group: `task`, the columns in `by`, `start` and `end`
        (the frames a and b), `runs`, and in the unit of `column` `value`, `low` and `high` (NaN for
        a single run).

    Raises:
        ConfigError: the runs on a task share fewer than two frames, or one of the reasons of
            :func:`learning_curves`.

    Example:
        >>> data = pd.DataFrame({
        ...     "run": ["a", "a", "a", "b", "b"], "recipe": "sac", "task": "Pendulum-v1",
        ...     "frames": [0, 100, 200, 0, 200], "return_mean": [0.0, 4.0, 4.0, 0.0, 8.0],
        ... })
        >>> area_under_curve(data)[["recipe", "start", "end", "runs", "value", "low", "high"]]
          recipe  start  end  runs  value  low  high
        0    sac      0  200     2    3.5  3.0   4.0
    """
    estimator = Estimator(statistic, confidence)
    rows, by = select_runs(data, column, by)
    table = []
    for task, task_rows in split(rows, ["task"]):
        warn_early_ends(task_rows, describe(task), "the areas of all end there")
        runs = task_rows.groupby("run")["frames"]
        start, end = runs.min().max(), runs.max().min()
        if start >= end:
            raise ConfigError(f"the runs on {describe(task)} share no range of frames")
        for key, group in split(task_rows, by):
            inside = group["frames"][group["frames"].between(start, end)]
            frames, values = _interpolate_runs(group, column, [start, *inside, end], describe(key))
            areas = np.average((values[1:] + values[:-1]) / 2, axis=0, weights=np.diff(frames))
            row = {"start": start, "end": end, "runs": len(areas), **estimator.columns(areas)}
            table.append({**task, **key, **row})
    return pd.DataFrame(table)


def frames_to_threshold(
    data: pd.DataFrame,
    threshold: float,
    *,
    column: str = "return_mean",
    by: str | Sequence[str] | None = None,
    confidence: float = 0.95,
) -> pd.DataFrame:
    r"""Tabulate after how many frames the runs of each task and group first reach a threshold.

    A run reaches the threshold at the first evaluation that is at least `threshold`; nothing is
    interpolated. A run that never reaches it is censored: it counts as later than all others. The
    median of a group is infinite if half of the runs or more do not reach the threshold.

    Args:
        data: a table of :func:`load_runs`, as for :func:`learning_curves`.
        threshold: the value to reach, in the unit of `column`.
        column: the column, in which larger values are better. Default `"return_mean"`.
        by: the grouping columns besides the task. Default: `recipe`, and `configuration` where the
            table has it.
        confidence: level of the interval. Default 0.95.

    Returns:
        A table with one row for each task and group: `task`, the columns in `by`, `threshold`,
        `runs`, `reached` (the number of runs that reach it), and in frames the median `value` over
        the runs with the percentile bootstrap interval, `low` and `high` (NaN for a single run);
        `inf` means never.

    Raises:
        ConfigError: one of the reasons of :func:`learning_curves`.

    Example:
        >>> data = pd.DataFrame({
        ...     "run": list("aabbcc"), "recipe": "sac", "task": "CartPole-v1",
        ...     "frames": [1000, 2000] * 3, "return_mean": [480.0, 500, 100, 490, 90, 300],
        ... })
        >>> frames_to_threshold(data, 475)[["recipe", "runs", "reached", "value", "low", "high"]]
          recipe  runs  reached   value     low  high
        0    sac     3        2  2000.0  1000.0   inf
    """
    estimator = Median(confidence=confidence)
    rows, by = select_runs(data, column, by)
    table = []
    for key, group in split(rows, ["task", *by]):
        reached = group[group[column] >= threshold].groupby("run")["frames"].min()
        # A run that has reached the threshold may end anywhere.
        ends = group["frames"].mask(group["run"].isin(reached.index), group["frames"].max())
        warn_early_ends(group.assign(frames=ends), describe(key), "they count as never there")
        frames = reached.astype(float).reindex(group["run"].unique()).fillna(np.inf).to_numpy()
        row = {"threshold": threshold, "runs": len(frames), "reached": len(reached)}
        table.append({**key, **row, **estimator.columns(frames)})
    return pd.DataFrame(table)


def aggregate_curves(
    groups: Sequence[tuple[Key, pd.DataFrame]],
    column: str,
    frames: int | Sequence[float] | None,
    estimator: Estimator,
) -> pd.DataFrame:
    """Return the curve of each group, in a table that begins with the columns of the keys.

    Args:
        groups: the keys and rows of groups.
        column: the column to aggregate.
        frames: the frames at which runs are interpolated, as for :func:`learning_curves`.
        estimator: the statistic over runs.

    Returns:
        The table of :func:`learning_curves`.
    """
    curves = []
    for key, group in groups:
        points, values = _interpolate_runs(group, column, frames, describe(key))
        curve = {"frames": points, **estimator.columns(values), "runs": values.shape[-1]}
        curves.append((key, pd.DataFrame(curve)))
    return join(curves)


def _interpolate_runs(
    group: pd.DataFrame, column: str, frames: int | Sequence[float] | None, name: str
) -> tuple[NDArray[Any], Floats]:
    """Return common frames of a group, and the values of the runs at them, `[frames, runs]`."""
    # Environments that are stepped together may end episodes at the same frame: average these.
    runs = {str(k): run.groupby("frames")[column].mean() for k, run in group.groupby("run")}
    first = max(run.index[0] for run in runs.values())
    last = min(run.index[-1] for run in runs.values())
    if first > last:
        raise ConfigError(f"the runs of {name} share no frames; leave some out")
    points = _interpolation_frames(frames, np.unique(group["frames"].to_numpy()), first, last)
    if not len(points):
        raise ConfigError(f"none of frames lies in the range of {name}, {first} to {last}")
    return points, np.stack([np.interp(points, x.index, x) for x in runs.values()], axis=-1)


def _interpolation_frames(
    frames: int | Sequence[float] | None, union: NDArray[Any], first: float, last: float
) -> NDArray[Any]:
    """Return the frames at which runs are interpolated, from `first` to `last`."""
    if frames is None:
        points = union
    elif np.ndim(frames) == 0:
        points = np.linspace(first, last, int(frames))  # type: ignore[arg-type]
        if union.dtype.kind in "iu":
            points = np.unique(points.round().astype(union.dtype))
    else:
        points = np.unique(frames)
    return points[(points >= first) & (points <= last)]
