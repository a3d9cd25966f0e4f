"""Learning curves: a column over the frames of training, aggregated over runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlkit_sac.analysis.estimates import Estimator, Floats, Statistic
from rlkit_sac.analysis.groups import Key, describe, join, select_runs, split, warn_early_ends
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
        ConfigError: a column is missing, there are no rows, or the runs of a group share no frames.

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


def aggregate_curves(
    groups: Sequence[tuple[Key, pd.DataFrame]],
    column: str,
    frames: int | Sequence[float] | None,
    estimator: Estimator,
) -> pd.DataFrame:
    """One curve for each group, as a table that begins with the columns of the keys.

    Args:
        groups: the keys and rows of groups.
        column: the column to aggregate.
        frames: as for :func:`learning_curves`.
        estimator: the statistic.

    Returns:
        The table of :func:`learning_curves`.
    """
    curves = []
    for key, group in groups:
        points, values = _on_common_frames(group, column, frames, describe(key))
        curve = {"frames": points, **estimator.columns(values), "runs": values.shape[-1]}
        curves.append((key, pd.DataFrame(curve)))
    return join(curves)


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
        points = np.linspace(first, last, frames)
        if union.dtype.kind in "iu":
            points = np.unique(points.round().astype(union.dtype))
    else:
        points = np.unique(np.asarray(frames))
    return points[(points >= first) & (points <= last)]
