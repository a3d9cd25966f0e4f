"""The final values of runs, for all tables of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from rlkit_sac.analysis.estimates import Floats
from rlkit_sac.analysis.groups import Key, describe, select_runs, split, warn_of_early_ends
from rlkit_sac.errors import ConfigError

References = Mapping[str, tuple[float, float]]


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
