"""Selecting rows and grouping runs, for all aggregates."""

from __future__ import annotations

import inspect
import json
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
    """The grouping columns besides the task, which always is one.

    Args:
        by: a column or several. None: `recipe`, and `configuration` where there is one.
        columns: those of the table.

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
    """The rows in which none of the needed values is missing.

    Args:
        data: a table of :func:`load_runs`.
        columns: the columns that are needed.
        by: further columns, which may lack values: a missing one is a group of its own.

    Returns:
        The rows, at least one, with all their columns.

    Raises:
        ConfigError: there are no rows, a column is missing, or no row is left.

    Example:
        >>> select_rows(pd.DataFrame({"frames": [1, 2], "return": [5.0, None]}), ["return"], [])
           frames  return
        0       1     5.0
    """
    if data.empty:
        raise ConfigError("the table has no rows: no run has any yet, or a selection left none")
    missing = [name for name in [*columns, *by] if name not in data.columns]
    if missing:
        raise ConfigError(
            f"the table has no column {', '.join(missing)}; its columns: "
            f"{', '.join(map(str, data.columns))}; load_runs(..., config=[...]) adds options"
        )
    rows = data.dropna(subset=list(columns))
    if rows.empty:
        raise ConfigError(f"the table has no row with a value in {', '.join(columns)}")
    return rows


def select_runs(
    data: pd.DataFrame, column: str, by: str | Sequence[str] | None
) -> tuple[pd.DataFrame, list[str]]:
    """The rows to aggregate and the grouping columns.

    A warning names runs without any value, and groups that repeat a seed.

    Args:
        data: a table of :func:`load_runs`.
        column: the column to aggregate.
        by: as of :func:`grouping_columns`.

    Returns:
        As :func:`select_rows` and :func:`grouping_columns`.

    Raises:
        ConfigError: as :func:`select_rows`.

    Example:
        >>> data = pd.DataFrame({"run": ["a"], "task": "X", "frames": 100, "return": 5.0})
        >>> select_runs(data, "return", [])[1]
        []
    """
    if not isinstance(data, pd.DataFrame):
        raise ConfigError(f"data is {data!r}; give a table, such as that of load_runs(...)")
    names = grouping_columns(by, data)
    rows = select_rows(data, ["run", "task", "frames", column], names)
    empty = sorted(set(data["run"].map(str)) - set(rows["run"].map(str)))
    if empty:
        warn(
            f"{len(empty)} of {data['run'].nunique()} runs left out, as they have no value of "
            f"{column}: {', '.join(empty[:3])}{', …' if len(empty) > 3 else ''}"
        )
    if len(find_non_numbers(rows[column])):
        raise ConfigError(f"column is {column!r}, which holds text; choose one of numbers")
    _warn_of_repeats(rows, names)
    return rows, names


def split(data: pd.DataFrame, columns: Sequence[str]) -> list[tuple[Key, pd.DataFrame]]:
    """Split a table by the values of some columns.

    Args:
        data: a table.
        columns: the grouping columns.

    Returns:
        The groups with their key, in order: numbers before text, missing values last.

    Example:
        >>> data = pd.DataFrame({"task": ["b", "a", "b"], "frames": [1, 2, 3]})
        >>> [(key, list(group["frames"])) for key, group in split(data, ["task"])]
        [({'task': 'a'}, [2]), ({'task': 'b'}, [1, 3])]
    """
    if not columns:
        return [({}, data)]
    return [
        (dict(zip(columns, map(_plain, values), strict=True)), group)
        for values, group in data.groupby(list(columns), dropna=False)
    ]


def comparable_lines(
    rows: pd.DataFrame, by: Sequence[str], *, same_interval: bool
) -> list[tuple[Key, pd.DataFrame]]:
    """The rows of each task and group, of runs that differ in length or interval apart.

    A warning names the groups that become several lines.

    Args:
        rows: a table of :func:`load_runs`.
        by: the grouping columns besides the task.
        same_interval: as of :func:`comparable_runs`.

    Returns:
        The rows of each line with their key, to which `line` is added: 0 for the most runs.
    """
    lines, differing = [], []
    for key, group in split(rows, ["task", *by]):
        sets = comparable_runs(group, same_interval=same_interval)
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
    """Put tables one below the other, after columns with the values of their keys.

    Args:
        groups: tables of equal columns, with keys of equal names.

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


def comparable_runs(group: pd.DataFrame, *, same_interval: bool) -> list[pd.DataFrame]:
    """Split a group into sets of runs of about the same length.

    Args:
        group: the rows of one group.
        same_interval: whether the runs of a set must also have the same interval, if they have
            any: the commonest step between their frames, if that is at least half of all steps.

    Returns:
        The rows of each set, the largest set first. The runs of a set share frames.

    Example:
        >>> group = pd.DataFrame({"run": ["a", "b"], "frames": [200, 200]})
        >>> [list(rows["run"]) for rows in comparable_runs(group, same_interval=True)]
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
    """Name a group in words.

    Args:
        key: its key. Settings are called by the last part of their dotted name where that is clear;
            the recipe alone stands for its default configuration.

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
            words.append(_text(value))
        elif name != "task":
            last = name.rpartition(".")[2]
            words.append(f"{last if short.count(last) == 1 else name} = {_text(value)}")
    text = ", ".join(words)
    if "task" not in key:
        return text or "all runs"
    return f"{text} on {key['task']}" if text else str(key["task"])


def warn_early_ends(group: pd.DataFrame, name: str, consequence: str) -> None:
    """Warn if some runs of a group stopped well before the others.

    Args:
        group: the rows of one group.
        name: the group in words.
        consequence: what that does to the result.
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
    """Warn at the line that calls a function of the analysis."""
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
        group = describe({name: _plain(first[name]) for name in [*by, "task"]})
        warn(
            f"several runs of {group} have the seed {first['seed']}: each counts as a run of its "
            "own; if their configurations differ, group by the options that do"
        )


def _comparable(frames: NDArray[Any], longer: Sequence[NDArray[Any]], same_interval: bool) -> bool:
    """Whether a run shares length, frames and interval with longer ones, the longest first."""
    intervals = {_interval(frames), _interval(longer[0])} - {None}
    return bool(
        frames[-1] >= max(ENDS_EARLY * longer[0][-1], *(other[0] for other in longer))
        and not (same_interval and len(intervals) > 1)
    )


def _interval(frames: NDArray[Any]) -> float | None:
    """The commonest step from frame 0 on, None if it is less than half of the steps."""
    steps, counts = np.unique(np.diff(frames, prepend=0), return_counts=True)
    return float(steps[counts.argmax()]) if 2 * counts.max() >= len(frames) else None


def _plain(value: Any) -> Any:
    """A cell as a Python value, None if it is missing."""
    if pd.isna(value):
        return None
    return value.item() if isinstance(value, np.generic) else value


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
