"""Final performance: tables of last evaluations, normalized scores, comparisons of groups."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from rlkit_sac.analysis.estimates import Estimator, Floats, Statistic
from rlkit_sac.analysis.groups import Key, describe, join, select_runs, split, warn_early_ends
from rlkit_sac.errors import ConfigError

References = Mapping[str, tuple[float, float]]


def final_performance(
    data: pd.DataFrame,
    *,
    column: str = "return_mean",
    by: str | Sequence[str] | None = None,
    last: int = 1,
    statistic: Statistic = "mean",
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> pd.DataFrame:
    r"""Tabulate the final performance of the runs of each task and group.

    The final value of a run is the value of its last evaluation, or the mean over the `last` ones.

    Args:
        data: a table of :func:`load_runs` with the columns `run`, `task`, `frames`, `column` and
            the columns in `by`. Rows in which `column` is NaN are left out.
        column: the column to tabulate. Default `"return_mean"`.
        by: the grouping columns besides the task. Default: `recipe`, and `configuration` where the
            table has it.
        last: how many evaluations at the end of a run are averaged. Default 1.
        statistic: the statistic of `low` and `high`: `"mean"` (default) or `"iqm"`.
        confidence: level of the interval. Default 0.95.
        resamples: number of bootstrap resamples. Default 9999.
        seed: seed of the resamples. Default 0.

    Returns:
        A table with one row for each task and group: `task`, the columns in `by`, `frames` (the
        last frame of the shortest run), `runs`, and over the final values of the runs `std` (the
        sample standard deviation), `iqm`, `min`, `max`, `mean`, `low` and `high` (the percentile
        bootstrap interval; both and `std` are NaN for a single run). `best` is the highest
        evaluation of any run at any time. :func:`learning_curves` defines the statistics.

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
                "std": values.std(ddof=1) if len(values) > 1 else np.nan,
                "iqm": float(interquartile.value(values)),
                "min": values.min(),
                "max": values.max(),
                "best": group[column].max(),
                "mean": values.mean(),
                "low": float(low),
                "high": float(high),
            }
        )
    return pd.DataFrame(table)


def final_values(group: pd.DataFrame, column: str, last: int, name: str) -> Floats:
    """Return the final values of the runs of one task and group, and warn of early ends.

    Args:
        group: the rows of the task and group.
        column: the column of the values.
        last: how many values at the end of a run are averaged.
        name: the name of the group, for warnings.

    Returns:
        An array `[runs]`.

    Raises:
        ConfigError: a run has fewer than `last` values, or `last` is less than 1.

    Example:
        >>> group = pd.DataFrame({"run": list("aab"), "frames": [1, 2, 2], "x": [7.0, 8.0, 5.0]})
        >>> final_values(group, "x", 1, "sac")
        array([8., 5.])
    """
    warn_early_ends(group, name, "their last evaluations count as final")
    runs = group.sort_values("frames").groupby("run")[column]
    counts = runs.size()
    if not 1 <= last <= counts.min():
        advice = f"{counts.min()}, the number of values of {column} in {counts.idxmin()}"
        raise ConfigError(f"last is {last}; give 1 to {advice}")
    return runs.apply(lambda values: values.iloc[-last:].mean()).to_numpy(dtype=float)


def final_values_by_task(
    data: pd.DataFrame, column: str, by: str | Sequence[str] | None, last: int
) -> list[tuple[Key, dict[str, Floats]]]:
    """Return the final values of all runs, for groups that were run on the same tasks.

    Args:
        data: a table of :func:`load_runs`.
        column: the column of the values.
        by: a grouping column or several.
        last: how many values at the end of a run are averaged.

    Returns:
        Pairs of the key of a group and arrays `[runs]` by task, in the same order of tasks.

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


def normalize_scores(values: Mapping[str, Floats], references: References) -> list[Floats]:
    """Return the normalized scores of final values, one array for each task.

    Args:
        values: arrays `[runs]` by task.
        references: for each task the values that become score 0 and score 1.

    Raises:
        ConfigError: a task has no references, or they are not two different numbers.

    Example:
        >>> import numpy as np
        >>> normalize_scores({"X": np.array([5.0, 20.0])}, {"X": (0, 10)})
        [array([0.5, 2. ])]
    """
    scores = []
    for task, task_values in values.items():
        pair = np.ravel(references.get(task, ()))
        if len(pair) != 2 or pair[0] == pair[1]:
            raise ConfigError(f"references of {task} are {pair}; give those of score 0 and 1")
        scores.append((task_values - pair[0]) / (pair[1] - pair[0]))
    return scores


def aggregate_scores(
    data: pd.DataFrame,
    references: References,
    *,
    column: str = "return_mean",
    by: str | Sequence[str] | None = None,
    last: int = 1,
    statistic: Statistic = "iqm",
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> pd.DataFrame:
    r"""Aggregate the final performance over tasks, in normalized scores.

    Returns of different tasks have different scales. The final value :math:`x` of a run becomes
    the score :math:`(x - l) / (h - l)`. The references :math:`l` and :math:`h` of the task may be
    the returns of a random and of an expert policy. The statistic is taken over the scores
    of all runs of all tasks, so a task with more runs counts more. The bootstrap is stratified by
    task: each resample keeps the number of runs of each task.

    Args:
        data: a table of :func:`load_runs`, as for :func:`final_performance`.
        references: for each task the returns that are score 0 and score 1.
        column: the column to aggregate. Default `"return_mean"`.
        by: the grouping columns. Default: `recipe`, and `configuration` where the
            table has it.
        last: how many evaluations at the end of a run are averaged. Default 1.
        statistic: `"iqm"` (default), the interquartile mean, or `"mean"`.
        confidence: level of the interval. Default 0.95.
        resamples: number of bootstrap resamples. Default 9999.
        seed: seed of the resamples. Default 0.

    Returns:
        A table with one row for each group: the columns in `by`, `tasks`, `runs` (of all tasks),
        `value`, `low` and `high` (NaN if some task has a single run).

    Raises:
        ConfigError: a task has no two different references, the groups were not run on the
            same tasks, or one of the reasons of :func:`final_performance`.

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
    table = []
    for key, values in final_values_by_task(data, column, by, last):
        scores = normalize_scores(values, references)
        runs = [len(task_scores) for task_scores in scores]
        counts = {"tasks": len(runs), "runs": sum(runs)}
        table.append({**key, **counts, **estimator.columns(*scores)})
    return pd.DataFrame(table)


def performance_profiles(
    data: pd.DataFrame,
    references: References,
    *,
    column: str = "return_mean",
    by: str | Sequence[str] | None = None,
    last: int = 1,
    thresholds: Sequence[float] | None = None,
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> pd.DataFrame:
    r"""Tabulate the share of runs whose normalized final score is above each threshold.

    With the scores :math:`x_{mn}` of run :math:`n` on task :math:`m`, as
    :func:`aggregate_scores` computes them, the profile at the threshold :math:`\tau` is

    .. math::
        \frac1M \sum_{m=1}^M \frac1{N_m} \sum_{n=1}^{N_m} [x_{mn} > \tau],

    so each task counts the same. A profile falls from 1 to 0 in steps. If the profile of a group is
    above that of another group everywhere, its scores are better at every quantile. The band is
    pointwise: a percentile bootstrap interval for each threshold, stratified by task. Profiles are
    the score distributions of Agarwal et al., "Deep Reinforcement Learning at the Edge of the
    Statistical Precipice", 2021, https://arxiv.org/abs/2108.13264, section 4.2.

    Args:
        data: a table of :func:`load_runs`, as for :func:`final_performance`.
        references: for each task the returns that are score 0 and score 1.
        column: the column of the values. Default `"return_mean"`.
        by: the grouping columns. Default: `recipe`, and `configuration` where the
            table has it.
        last: how many evaluations at the end of a run are averaged. Default 1.
        thresholds: the thresholds, in any order. Default: all scores of all runs, since profiles
            change only there.
        confidence: level of the intervals. Default 0.95.
        resamples: number of bootstrap resamples. Default 9999.
        seed: seed of the resamples. Default 0.

    Returns:
        A table with one row for each group and threshold: the columns in `by`, `tau`, `value`,
        `low` and `high` (NaN if some task has a single run), `tasks` and `runs` (of all tasks),
        ordered by group and `tau`. :func:`plot_performance_profiles` draws it.

    Raises:
        ConfigError: one of the reasons of :func:`aggregate_scores`.

    Example:
        >>> data = pd.DataFrame({
        ...     "run": list("abcd"), "recipe": "sac", "task": ["X", "X", "Y", "Y"], "frames": 100,
        ...     "return_mean": [5.0, 7.0, 200.0, 400.0],
        ... })
        >>> performance_profiles(data, {"X": (0, 10), "Y": (0, 1000)}, thresholds=[0.3, 0.5])
          recipe  tau  value  low  high  tasks  runs
        0    sac  0.3   0.75  0.5   1.0      2     4
        1    sac  0.5   0.25  0.0   0.5      2     4
    """
    estimator = _Profile(confidence=confidence, resamples=resamples, seed=seed)
    groups = [
        (key, normalize_scores(values, references))
        for key, values in final_values_by_task(data, column, by, last)
    ]
    if thresholds is None:
        thresholds = [score for _, scores in groups for runs in scores for score in runs]
    taus = np.unique(np.asarray(thresholds, dtype=float))
    profiles = []
    for key, scores in groups:
        above = [(task_scores > taus[:, None]).astype(float) for task_scores in scores]
        counts = {"tasks": len(scores), "runs": sum(map(len, scores))}
        profiles.append((key, pd.DataFrame({"tau": taus, **estimator.columns(*above), **counts})))
    return join(profiles)


class _Profile(Estimator):
    """The share of runs, averaged over tasks."""

    def value(self, *strata: Floats) -> Floats:
        return np.asarray(np.mean([task_scores.mean(axis=-1) for task_scores in strata], axis=0))


def probability_of_improvement(
    data: pd.DataFrame,
    *,
    column: str = "return_mean",
    by: str | Sequence[str] | None = None,
    last: int = 1,
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> pd.DataFrame:
    r"""Estimate, for each pair of groups, the probability that a run of `x` ends above one of `y`.

    With the final values :math:`x_{mi}` of :math:`N_m` runs and :math:`y_{mj}` of :math:`K_m` runs
    on task :math:`m`, `value` is the share of pairs in which `x` is better, averaged over tasks;
    ties count half:

    .. math::
        \frac1M \sum_{m=1}^M \frac1{N_m K_m} \sum_{i,j}
        \bigl([x_{mi} > y_{mj}] + \tfrac12 [x_{mi} = y_{mj}]\bigr).

    For one task it is the statistic of the Mann-Whitney test, divided by the maximum
    :math:`N_m K_m`. `p_value` is the result of the two-sided test `scipy.stats.mannwhitneyu`, which
    is exact if a group has at most 8 runs and no values are equal. Values are compared only within
    a task, so they need no normalization, and the size of a difference does not matter. The
    bootstrap resamples runs within their task and group. See Agarwal et al.,
    "Deep Reinforcement Learning at the Edge of the Statistical Precipice", 2021,
    https://arxiv.org/abs/2108.13264, section 4.3.

    Args:
        data: a table of :func:`load_runs`, as for :func:`final_performance`.
        column: the column to compare, in which larger values are better. Default `"return_mean"`.
        by: the grouping columns. Default: `recipe`, and `configuration` where the
            table has it.
        last: how many evaluations at the end of a run are averaged. Default 1.
        confidence: level of the interval. Default 0.95.
        resamples: number of bootstrap resamples. Default 9999.
        seed: seed of the resamples. Default 0.

    Returns:
        A table with one row for each ordered pair of groups: their names `x` and `y`, `tasks`,
        `runs_x` and `runs_y` (of all tasks), `value`, `low` and `high` (NaN if a group has a
        single run on some task), and `p_value` (NaN with several tasks: test each by itself).

    Raises:
        ImportError: SciPy, of the extra `plots`, is not installed.
        ConfigError: there is a single group, the groups were not run on the same tasks, or one of
            the reasons of :func:`final_performance`.

    Example:
        >>> data = pd.DataFrame({
        ...     "run": list("abcd"), "recipe": ["sac", "sac", "acer", "acer"], "task": "X",
        ...     "frames": 100, "return_mean": [5.0, 7.0, 6.0, 4.0],
        ... })
        >>> probability_of_improvement(data)
              x     y  tasks  runs_x  runs_y  value  low  high   p_value
        0  acer   sac      1       2       2   0.25  0.0   1.0  0.666667
        1   sac  acer      1       2       2   0.75  0.0   1.0  0.666667
    """
    from scipy.stats import mannwhitneyu  # of the extra `plots`

    estimator = _Improvement(confidence=confidence, resamples=resamples, seed=seed)
    groups = [
        (describe(key), list(values.values()))
        for key, values in final_values_by_task(data, column, by, last)
    ]
    if len(groups) < 2:
        raise ConfigError(
            f"{groups[0][0]} is the only group; a comparison needs two: load the runs of another, "
            "or name in by= the column that tells them apart"
        )
    table = []
    for (x_name, x), (y_name, y) in itertools.permutations(groups, 2):
        pair = {"x": x_name, "y": y_name, "tasks": len(x)}
        counts = {"runs_x": sum(map(len, x)), "runs_y": sum(map(len, y))}
        p_value = mannwhitneyu(x[0], y[0]).pvalue if len(x) == 1 else np.nan
        table.append({**pair, **counts, **estimator.columns(*x, *y), "p_value": p_value})
    return pd.DataFrame(table)


class _Improvement(Estimator):
    """The probability of improvement of the first half of the strata over the second."""

    def value(self, *strata: Floats) -> Floats:
        tasks = len(strata) // 2
        pairs = zip(strata[:tasks], strata[tasks:], strict=True)
        return np.asarray(np.mean([_win_share(x, y) for x, y in pairs], axis=0))


def _win_share(x: Floats, y: Floats) -> Floats:
    """Return the share of pairs in which `x` is better, `[*]`, of runs `[*, N]` and `[*, K]`."""
    # All pairs of all resamples might not fit into memory, so runs are taken one by one.
    signs = sum(np.sign(x[..., [i]] - y).mean(axis=-1) for i in range(x.shape[-1]))
    return np.asarray(0.5 + 0.5 * signs / x.shape[-1])
