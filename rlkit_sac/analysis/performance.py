"""Final performance: a row for each task, or one score over all tasks."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import pandas as pd

from rlkit_sac.analysis.estimates import Estimator, Statistic
from rlkit_sac.analysis.groups import describe, select_runs, split, warn_of_early_ends
from rlkit_sac.errors import ConfigError


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
            evaluations, an argument is out of its range, or scipy is not installed.

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
        name = describe(key)
        warn_of_early_ends(group, name, "their last evaluations count as final")
        final = _final_values(group, column, last)
        values = final.to_numpy(dtype=float)
        low, high = estimator.interval(values)
        table.append(
            {
                **key,
                "frames": group.groupby("run")["frames"].max().min(),
                "runs": len(values),
                "mean": final.mean(),
                "std": final.std(),
                "iqm": float(interquartile.value(values)),
                "low": float(low),
                "high": float(high),
                "min": final.min(),
                "max": final.max(),
                "best": group[column].max(),
            }
        )
    return pd.DataFrame(table)


def aggregate_scores(
    data: pd.DataFrame,
    references: Mapping[str, tuple[float, float]],
    *,
    column: str = "return_mean",
    by: str | Sequence[str] = ("recipe",),
    last: int = 1,
    statistic: Statistic = "iqm",
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> pd.DataFrame:
    r"""Aggregate the final performance over tasks, in normalized scores.

    Returns of different tasks have different scales. The final value :math:`x` of a run becomes
    the score :math:`(x - l) / (h - l)` with the references :math:`l` and :math:`h` of its task,
    such as the returns of a random and of an expert policy. The statistic is taken over the scores
    of all runs of all tasks. The bootstrap is stratified by task: each resample draws from the
    runs of each task as many as it has.

    Args:
        data: a table of :func:`load_runs`, as for :func:`final_performance`.
        references: for each task the returns that are score 0 and score 1.
        column: the column to aggregate. Default `"return_mean"`.
        by: the grouping columns. Default `("recipe",)`.
        last: how many evaluations at the end of a run are averaged. Default 1.
        statistic: `"iqm"` (default), the interquartile mean, or `"mean"`.
        confidence: level of the interval. Default 0.95.
        resamples: number of bootstrap resamples. Default 9999.
        seed: seed of the resamples. Default 0.

    Returns:
        A table with one row for each group: the columns of `by`, `tasks`, `runs` (of all tasks),
        `value`, `low` and `high` (NaN if some task has a single run).

    Raises:
        ConfigError: a task has no references or equal ones, the groups were not run on the same
            tasks, or one of the reasons of :func:`final_performance`.

    Example:
        >>> data = pd.DataFrame({
        ...     "run": list("abcd"), "recipe": "sac", "task": ["X", "X", "Y", "Y"], "frames": 100,
        ...     "return_mean": [5.0, 7.0, 200.0, 400.0],
        ... })
        >>> aggregate_scores(data, {"X": (0, 10), "Y": (0, 1000)}, statistic="mean").round(3)
          recipe  tasks  runs  value   low  high
        0    sac      2     4   0.45  0.35  0.55
    """
    estimator = Estimator(statistic, confidence, resamples, seed)
    rows, by = select_runs(data, column, by)
    tasks = sorted(rows["task"].unique())
    _check_references(references, tasks)
    table = []
    for key, group in split(rows, by):
        missing = sorted(set(tasks) - set(group["task"]))
        if missing:
            raise ConfigError(
                f"{describe(key)} has no run on {', '.join(missing)}, which others have; scores "
                "over different tasks cannot be compared: select the tasks that all have"
            )
        strata = []
        for task_key, task_rows in split(group, ["task"]):
            task = str(task_key["task"])
            name = describe({**key, "task": task})
            warn_of_early_ends(task_rows, name, "their last evaluations count as final")
            low, high = references[task]
            final = _final_values(task_rows, column, last).to_numpy(dtype=float)
            strata.append((final - low) / (high - low))
        if len({len(stratum) for stratum in strata}) > 1:
            warnings.warn(
                f"{describe(key)} has different numbers of runs on the tasks: each run counts the "
                "same, so a task with more runs counts more",
                stacklevel=2,
            )
        low, high = map(float, estimator.interval(*strata))
        counts = {"tasks": len(strata), "runs": sum(map(len, strata))}
        value = float(estimator.value(*strata))
        table.append({**key, **counts, "value": value, "low": low, "high": high})
    return pd.DataFrame(table)


def _final_values(group: pd.DataFrame, column: str, last: int) -> pd.Series[float]:
    """For each run of a group the mean over its last evaluations."""
    if last < 1:
        raise ConfigError(f"last is {last}; at least 1 evaluation is needed")
    runs = group.sort_values("frames").groupby("run")[column]
    counts = runs.size()
    if counts.min() < last:
        raise ConfigError(
            f"last is {last}, but {counts.idxmin()} has only {counts.min()} values of {column}"
        )
    return runs.apply(lambda values: values.iloc[-last:].mean())


def _check_references(references: Mapping[str, tuple[float, float]], tasks: Sequence[str]) -> None:
    unknown = [task for task in tasks if task not in references]
    if unknown:
        raise ConfigError(
            f"no references for {', '.join(unknown)}; give the returns of score 0 and score 1"
        )
    for task in tasks:
        low, high = references[task]
        if low == high:
            raise ConfigError(f"the references of {task} are equal, {low}; they must differ")
