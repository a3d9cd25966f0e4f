"""Learning curves as numbers: runs on common frames, and their mean or interquartile mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlkit_sac.analysis.estimates import Estimator, Floats, Statistic
from rlkit_sac.analysis.groups import (
    describe,
    grouping_columns,
    select_rows,
    split,
    warn_of_early_ends,
    warn_of_repeats,
)
from rlkit_sac.errors import ConfigError


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
    by = grouping_columns(by)
    rows = select_rows(data, ["run", "task", "frames", column], by)
    warn_of_repeats(rows, by)
    keys, parts = [], []
    for key, group in split(rows, ["task", *by]):
        name = describe(key)
        points, values = _on_common_frames(group, column, frames, name)
        warn_of_early_ends(group, name, "the curve stops there")
        low, high = estimator.interval(values)
        curve = {"frames": points, "value": estimator.value(values), "low": low, "high": high}
        parts.append(pd.DataFrame(curve).assign(runs=values.shape[-1]))
        keys += [key] * len(points)
    curves = pd.concat(parts, ignore_index=True)
    for index, name in enumerate(["task", *by]):
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
