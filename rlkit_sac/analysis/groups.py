"""Selection of rows and grouping of runs, for all aggregates."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlkit_sac.analysis.files import find_non_numbers
from rlkit_sac.errors import ConfigError

Key = dict[str, Any]  # the value of each grouping column; None where missing

ENDS_EARLY = 0.9  # a run that stops before this share of the longest run's frames ends early


def grouping_columns(by: str | Sequence[str] | None, columns: Iterable[Any]) -> list[str]:
    """Return the grouping columns besides the task, which always is one.

    Args:
        by: a column or several. None: `recipe`, and `configuration` if the table has it.
        columns: the columns of the table.

    Example:
        >>> grouping_columns(["task", "update.lr_actor"], ["recipe"])
        ['update.lr_actor']
        >>> grouping_columns(None, ["recipe", "configuration"])
        ['recipe', 'configuration']
    """
    if by is None:
        by = ["recipe", *({"configuration"} & set(columns))]
    names = [by] if isinstance(by, str) else list(by)
    return [name for name in dict.fromkeys(names) if name != "task"]


def select_rows(data: pd.DataFrame, columns: Sequence[str], by: Sequence[str]) -> pd.DataFrame:
    """Return the rows that have a value in each of some columns.

    Args:
        data: a table of :func:`load_runs`.
        columns: the columns that need values.
        by: the grouping columns, in which values may be missing: these rows are a group.

    Returns:
        The rows, at least one, with all columns.

    Raises:
        ConfigError: there are no rows, a column is missing, or no row is left.

    Example:
        >>> select_rows(pd.DataFrame({"frames": [1, 2], "return": [5.0, None]}), ["return"], [])
           frames  return
        0       1     5.0
    """
    missing = [name for name in [*columns, *by] if name not in data.columns]
    if missing:
        raise ConfigError(
            f"the table has no column {', '.join(missing)}; its columns: "
            f"{', '.join(map(str, data.columns))}; load_runs(..., config=[...]) adds options"
        )
    rows = data.dropna(subset=list(columns))
    if rows.empty:
        raise ConfigError(f"the table has no row with a value in each of {', '.join(columns)}")
    return rows


def select_runs(
    data: pd.DataFrame, column: str, by: str | Sequence[str] | None
) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows to aggregate, and the grouping columns.

    Warnings name runs without any value, and groups in which a seed is repeated.

    Args:
        data: a table of :func:`load_runs`.
        column: the column to aggregate.
        by: the grouping columns, as for :func:`grouping_columns`.

    Returns:
        The results of :func:`select_rows` and :func:`grouping_columns`.

    Raises:
        ConfigError: one of the reasons of :func:`select_rows`, or the column holds text.

    Example:
        >>> data = pd.DataFrame({"run": ["a"], "task": "X", "frames": 100, "return": 5.0})
        >>> select_runs(data, "return", [])[1]
        []
    """
    if not isinstance(data, pd.DataFrame):
        raise ConfigError(f"data is {data!r}; give a table, such as that of load_runs(...)")
    names = grouping_columns(by, data)
    rows = select_rows(data, ["run", "task", "frames", column], names)
    empty_runs = sorted(set(data["run"].map(str)) - set(rows["run"].map(str)))
    if empty_runs:
        warn(
            f"{len(empty_runs)} of {data['run'].nunique()} runs left out, as they have no value of "
            f"{column}: {', '.join(empty_runs[:3])}{', …' if len(empty_runs) > 3 else ''}"
        )
    if len(find_non_numbers(rows[column])):
        raise ConfigError(f"column is {column!r}, which holds text; choose one of numbers")
    _warn_of_repeats(rows, names)
    return rows, names


def split(data: pd.DataFrame, columns: Sequence[str]) -> list[tuple[Key, pd.DataFrame]]:
    """Split a table by the values of some columns.

    Args:
        data: the table.
        columns: the grouping columns.

    Returns:
        Pairs of key and rows of a group, in order: numbers before text, missing values last.

    Example:
        >>> data = pd.DataFrame({"task": ["b", "a", "b"], "frames": [1, 2, 3]})
        >>> [(key, list(group["frames"])) for key, group in split(data, ["task"])]
        [({'task': 'a'}, [2]), ({'task': 'b'}, [1, 3])]
    """
    if not columns:
        return [({}, data)]
    return [
        (dict(zip(columns, map(_python_value, values), strict=True)), group)
        for values, group in data.groupby(list(columns), dropna=False)
    ]


def split_comparable(
    rows: pd.DataFrame, by: Sequence[str], *, same_interval: bool
) -> list[tuple[Key, pd.DataFrame]]:
    """Split the rows of each task and group into lines of runs of equal length and interval.

    A warning names the groups that become several lines.

    Args:
        rows: a table of :func:`load_runs`.
        by: the grouping columns besides the task.
        same_interval: whether the runs of a line must have the same interval.

    Returns:
        Pairs of key and rows of a line. The key has a number `line` too: 0 for the most runs.
    """
    lines, differing = [], []
    for key, group in split(rows, ["task", *by]):
        sets = split_by_length(group, same_interval=same_interval)
        lines += [({**key, "line": number}, part) for number, part in enumerate(sets)]
        if len(sets) > 1:
            text = ", ".join(f"{x['run'].nunique()} to frame {x['frames'].max()}" for x in sets)
            differing.append(f"{describe(key)}: {text}")
    if differing:
        warn(
            "runs of a group that differ in length or interval are drawn as lines of their own: "
            f"{'; '.join(differing)}; select runs, or group by what differs"
        )
    return lines


def join(groups: Sequence[tuple[Key, pd.DataFrame]]) -> pd.DataFrame:
    """Return tables one below the other, with the values of their keys as first columns.

    Args:
        groups: pairs of key and table, with equal names of keys and equal columns.

    Example:
        >>> join([({"task": "a"}, pd.DataFrame({"frames": [1, 2]}))])
          task  frames
        0    a       1
        1    a       2
    """
    table = pd.concat([rows for _, rows in groups], ignore_index=True)
    for index, name in enumerate(groups[0][0]):
        table.insert(index, name, [key[name] for key, rows in groups for _ in range(len(rows))])
    return table


def split_by_length(group: pd.DataFrame, *, same_interval: bool) -> list[pd.DataFrame]:
    """Split a group into sets of runs of about the same length.

    Args:
        group: the rows of one group.
        same_interval: whether the runs of a set must also have the same interval. It is the most
            common step between the frames of a run, if at least half of the steps are equal.

    Returns:
        The rows of each set, the largest set first. The frames of the runs in a set overlap.

    Example:
        >>> group = pd.DataFrame({"run": ["a", "b"], "frames": [200, 200]})
        >>> [list(rows["run"]) for rows in split_by_length(group, same_interval=True)]
        [['a', 'b']]
    """
    frames = {run: np.unique(rows["frames"]) for run, rows in group.groupby("run")}
    sets: list[list[Any]] = []
    for run in sorted(frames, key=lambda run: -frames[run][-1]):
        for runs in sets:
            if _comparable(frames[run], [frames[other] for other in runs], same_interval):
                runs.append(run)
                break
        else:
            sets.append([run])
    return [group[group["run"].isin(runs)] for runs in sorted(sets, key=len, reverse=True)]


def describe(key: Key) -> str:
    """Return a name of a group.

    Args:
        key: the key of the group. An option has the last part of its dotted name, if no other
            option has the same. A default configuration is left out.

    Example:
        >>> describe({"recipe": "sac", "update.lr_actor": 0.001, "task": "Pendulum-v1"})
        'sac, lr_actor = 0.001 on Pendulum-v1'
    """
    short = [name.rpartition(".")[2] for name in key]
    words = []
    for name, value in key.items():
        if name == "configuration" and "recipe" in key and value in (None, "default"):
            continue
        if name in ("group", "recipe", "configuration", "status", "system"):
            words.append(_value_text(value))
        elif name != "task":
            last = name.rpartition(".")[2]
            words.append(f"{last if short.count(last) == 1 else name} = {_value_text(value)}")
    text = ", ".join(words)
    if "task" not in key:
        return text or "all runs"
    return f"{text} on {key['task']}" if text else str(key["task"])


def warn_early_ends(group: pd.DataFrame, name: str, consequence: str) -> None:
    """Warn if some runs of a group stopped well before the others.

    Args:
        group: the rows of one group.
        name: the name of the group, for the warning.
        consequence: the effect on the result, for the warning.
    """
    ends = group.groupby("run")["frames"].max()
    early = ends[ends < ENDS_EARLY * ends.max()]
    if early.empty:
        return
    listing = ", ".join(f"{run} at frame {frame}" for run, frame in early.items())
    warn(
        f"{len(early)} of {len(ends)} runs of {name} end early, the longest at frame {ends.max()}: "
        f"{listing}; {consequence}; select runs, such as finished ones, if they should not count"
    )


def warn(message: str) -> None:
    """Issue a warning that points to the line which calls a function of this package."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals["__name__"].startswith("rlkit_sac.analysis."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def _warn_of_repeats(data: pd.DataFrame, by: Sequence[str]) -> None:
    """Warn if a group holds several runs of one seed.

    Args:
        data: a table of :func:`load_runs`; without a column `seed` nothing is checked.
        by: the grouping columns besides the task.
    """
    if "seed" not in data.columns or "seed" in by:
        return
    columns = ["task", *by, "seed"]
    seeds = data[[*columns, "run"]].dropna(subset="seed").drop_duplicates()
    for _, first in seeds[seeds.duplicated(columns)].head(1).iterrows():
        group = describe({name: _python_value(first[name]) for name in [*by, "task"]})
        warn(
            f"several runs of {group} have the seed {first['seed']}: each counts as a run of its "
            "own; if their configurations differ, group by the options that do"
        )


def _comparable(frames: NDArray[Any], longer: Sequence[NDArray[Any]], same_interval: bool) -> bool:
    """Return whether a run is comparable with longer ones, given the longest first."""
    intervals = {_evaluation_interval(frames), _evaluation_interval(longer[0])} - {None}
    return bool(
        frames[-1] >= max(ENDS_EARLY * longer[0][-1], *(other[0] for other in longer))
        and not (same_interval and len(intervals) > 1)
    )


def _evaluation_interval(frames: NDArray[Any]) -> float | None:
    """Return the most common step from frame 0 on, or None if fewer than half are equal."""
    steps, counts = np.unique(np.diff(frames, prepend=0), return_counts=True)
    return float(steps[counts.argmax()]) if 2 * counts.max() >= len(frames) else None


def _python_value(value: Any) -> Any:
    """Return a cell as a Python value, or None if it is missing."""
    if pd.isna(value):
        return None
    return value.item() if isinstance(value, np.generic) else value


def _value_text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
