"""Final performance, a row for each task and group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rlkit_sac.analysis.estimates import Estimator, Statistic
from rlkit_sac.analysis.final_values import final_values
from rlkit_sac.analysis.groups import describe, select_runs, split


def final_performance(
    data: pd.DataFrame,
    *,
    column: str = "return_mean",
    by: str | Sequence[str] = ("recipe",),
    last: int = 1,
    statistic: Statistic = "mean",
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> pd.DataFrame:
    r"""Tabulate how the runs of each task and group end.

    The final value of a run is that of its last evaluation, or the mean over its `last` ones.

    Args:
        data: a table of :func:`load_runs` with the columns `run`, `task`, `frames`, `column` and
            those of `by`. Rows in which `column` is NaN are left out.
        column: the column to tabulate. Default `"return_mean"`.
        by: the grouping columns besides the task. Default `("recipe",)`.
        last: how many evaluations at the end of a run are averaged. Default 1.
        statistic: what `low` and `high` belong to: `"mean"` (default) or `"iqm"`.
        confidence: level of the interval. Default 0.95.
        resamples: number of bootstrap resamples. Default 9999.
        seed: seed of the resamples. Default 0.

    Returns:
        A table with one row for each task and group: `task`, the columns of `by`, `frames` (at
        which the shortest run ends), `runs`, and over the final values of the runs `mean`, `std`
        (the sample standard deviation), `iqm`, `low` and `high` (the percentile bootstrap interval;
        both and `std` are NaN for a single run), `min` and `max`. `best` is the highest evaluation
        of any run at any time. :func:`learning_curves` defines the statistics.

    Raises:
        ConfigError: a column is missing, there are no rows, a run has fewer than `last`
            evaluations, or an argument is out of its range.

    Example:
        >>> data = pd.DataFrame({
        ...     "run": ["a", "a", "b", "b"], "recipe": "sac", "task": "Pendulum-v1",
        ...     "frames": [0, 100, 0, 100], "return_mean": [-1000.0, -200.0, -150.0, -160.0],
        ... })
        >>> final_performance(data)[["frames", "runs", "mean", "low", "high", "best"]]
           frames  runs   mean    low   high   best
        0     100     2 -180.0 -200.0 -160.0 -150.0
    """
    estimator = Estimator(statistic, confidence, resamples, seed)
    interquartile = Estimator("iqm")
    rows, by = select_runs(data, column, by)
    table = []
    for key, group in split(rows, ["task", *by]):
        values = final_values(group, column, last, describe(key))
        low, high = estimator.interval(values)
        table.append(
            {
                **key,
                "frames": group.groupby("run")["frames"].max().min(),
                "runs": len(values),
                "mean": values.mean(),
                "std": values.std(ddof=1) if len(values) > 1 else np.nan,
                "iqm": float(interquartile.value(values)),
                "low": float(low),
                "high": float(high),
                "min": values.min(),
                "max": values.max(),
                "best": group[column].max(),
            }
        )
    return pd.DataFrame(table)
