"""Learning curves as numbers: the mean over runs at common frames, and how much runs differ."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

from rlkit_sac.errors import ConfigError


def learning_curves(data: pd.DataFrame, *, column: str = "return_mean") -> pd.DataFrame:
    r"""Average a column over the runs of each recipe and task.

    Runs may have been evaluated at different frames. Each run is interpolated linearly at every
    frame at which any run of its group has a value, within the range that all of them cover; no
    run is extrapolated. So a run that stopped early shortens the curve of its group: select
    `data[data["status"] == "finished"]` first if it should not count.

    With the interpolated values :math:`x_i` of :math:`n` runs, `mean` is
    :math:`\bar x = \frac1n \sum_i x_i` and `std` the sample standard deviation
    :math:`\sqrt{\frac1{n-1} \sum_i (x_i - \bar x)^2}`, NaN for a single run.

    Args:
        data: a table of :func:`load_runs` with the columns `run`, `recipe`, `task`, `frames` and
            `column`. Rows in which `column` is NaN are left out.
        column: the column to average. Default `"return_mean"`.

    Returns:
        A table with the columns `recipe`, `task`, `frames`, `mean`, `std` and `runs` (how many
        runs were averaged), ordered by recipe, task and frames.

    Raises:
        ConfigError: a column is missing, there are no rows, or the runs of a group share no frames.

    Example:
        >>> data = pd.DataFrame({
        ...     "run": ["a", "a", "b", "b"], "recipe": "sac", "task": "Pendulum-v1",
        ...     "frames": [0, 100, 0, 100], "return_mean": [-1000.0, -200.0, -1200.0, -160.0],
        ... })
        >>> learning_curves(data)[["frames", "mean", "runs"]]
           frames    mean  runs
        0       0 -1100.0     2
        1     100  -180.0     2
    """
    _warn_of_repeats(data)
    data = select_rows(data, ["run", "recipe", "task", "frames", column])
    groups = data.groupby(["recipe", "task"])
    curves = [_average(group, column, str(recipe), str(task)) for (recipe, task), group in groups]
    return pd.concat(curves, ignore_index=True)


def select_rows(data: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """The given columns, in the rows in which none of them is missing.

    Args:
        data: a table of :func:`load_runs`.
        columns: the columns that are needed.

    Returns:
        A table of these columns with at least one row.

    Raises:
        ConfigError: a column is missing, or no row is left.

    Example:
        >>> select_rows(pd.DataFrame({"frames": [1, 2], "return": [5.0, None]}), ["return"])
           return
        0     5.0
    """
    missing = [name for name in columns if name not in data.columns]
    if missing:
        raise ConfigError(
            f"the table has no column {', '.join(missing)}; its columns: {', '.join(data.columns)}"
        )
    rows = data[columns].dropna()
    if rows.empty:
        raise ConfigError(f"the table has no row with a value in {', '.join(columns)}")
    return rows


def _warn_of_repeats(data: pd.DataFrame) -> None:
    if "seed" not in data.columns:
        return
    seeds = data[["recipe", "task", "seed", "run"]].drop_duplicates()
    repeats = seeds[seeds.duplicated(["recipe", "task", "seed"])]
    if len(repeats):
        first = repeats.iloc[0]
        warnings.warn(
            f"several runs of {first['recipe']} on {first['task']} have the seed {first['seed']}: "
            "each counts as a run of its own; if their configurations differ, select one",
            stacklevel=3,
        )


def _average(group: pd.DataFrame, column: str, recipe: str, task: str) -> pd.DataFrame:
    runs = {str(name): run.sort_values("frames") for name, run in group.groupby("run")}
    first = max(run["frames"].iloc[0] for run in runs.values())
    last = min(run["frames"].iloc[-1] for run in runs.values())
    if first > last:
        ranges = "; ".join(
            f"{name}: {run['frames'].iloc[0]} to {run['frames'].iloc[-1]}"
            for name, run in runs.items()
        )
        raise ConfigError(
            f"the runs of {recipe} on {task} share no frames ({ranges}); leave some out"
        )
    frames = np.unique(group["frames"].to_numpy())
    frames = frames[(frames >= first) & (frames <= last)]
    values = np.stack([np.interp(frames, run["frames"], run[column]) for run in runs.values()])
    return pd.DataFrame(
        {
            "recipe": recipe,
            "task": task,
            "frames": frames,
            "mean": values.mean(axis=0),
            "std": values.std(axis=0, ddof=1) if len(runs) > 1 else np.nan,
            "runs": len(runs),
        }
    )
