"""The last evaluations of runs: the table of them, and their values by group and task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from rlkit_sac.analysis.estimates import Estimator, Floats, Statistic
from rlkit_sac.analysis.groups import Key, describe, select_runs, split, warn_of_early_ends
from rlkit_sac.errors import ConfigError

References = Mapping[str, tuple[float, float]]


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


def final_values(group: pd.DataFrame, column: str, last: int, name: str) -> Floats:
    """The final values of the runs of one task and group, with a warning if some end early.

    Args:
        group: their rows.
        column: the column whose values are wanted.
        last: how many values at the end of a run are averaged.
        name: the group in words.

    Returns:
        An array `[runs]`.

    Raises:
        ConfigError: a run has fewer values.

    Example:
        >>> group = pd.DataFrame({"run": list("aab"), "frames": [1, 2, 2], "x": [7.0, 8.0, 5.0]})
        >>> final_values(group, "x", 1, "sac")
        array([8., 5.])
    """
    warn_of_early_ends(group, name, "their last evaluations count as final")
    runs = group.sort_values("frames").groupby("run")[column]
    counts = runs.size()
    if counts.min() < last:
        raise ConfigError(
            f"last is {last}, but {counts.idxmin()} has only {counts.min()} values of {column}"
        )
    return runs.apply(lambda values: values.iloc[-last:].mean()).to_numpy(dtype=float)


def final_values_by_task(
    data: pd.DataFrame, column: str, by: str | Sequence[str], last: int
) -> list[tuple[Key, dict[str, Floats]]]:
    """The final values of all runs, for groups that were run on the same tasks.

    Args:
        data: a table of :func:`load_runs`.
        column: the column whose values are wanted.
        by: a grouping column or several.
        last: how many values at the end of a run are averaged.

    Returns:
        For each group its key and, by task, arrays `[runs]`, all in the same order of tasks.

    Raises:
        ConfigError: a group has no run on a task that others have, or one of the reasons of
            :func:`select_runs` and :func:`final_values`.
    """
    rows, by = select_runs(data, column, by)
    tasks = sorted(map(str, rows["task"].unique()))
    groups = []
    for key, group in split(rows, by):
        values = {
            str(task["task"]): final_values(part, column, last, describe({**key, **task}))
            for task, part in split(group, ["task"])
        }
        missing = [task for task in tasks if task not in values]
        if missing:
            raise ConfigError(
                f"{describe(key)} has no run on {', '.join(missing)}, which others have; results "
                "on different tasks cannot be compared: select the tasks that all have"
            )
        groups.append((key, values))
    return groups


def normalize(values: Mapping[str, Floats], references: References) -> list[Floats]:
    """The normalized scores of final values, one array for each task.

    Args:
        values: by task, arrays `[runs]`.
        references: for each task the values that become score 0 and score 1.

    Raises:
        ConfigError: a task has no references.

    Example:
        >>> import numpy as np
        >>> normalize({"X": np.array([5.0, 20.0])}, {"X": (0, 10)})
        [array([0.5, 2. ])]
    """
    unknown = [task for task in values if task not in references]
    if unknown:
        raise ConfigError(
            f"no references for {', '.join(unknown)}; give the returns of score 0 and score 1"
        )
    scores = []
    for task, of_task in values.items():
        low, high = references[task]
        scores.append((of_task - low) / (high - low))
    return scores
