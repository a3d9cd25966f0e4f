"""The numbers of the charts, as what JSON holds."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from rlkit_sac.analysis.curves import aggregate_curves
from rlkit_sac.analysis.estimates import Estimator
from rlkit_sac.analysis.groups import comparable_lines, describe, split
from rlkit_sac.analysis.report.results import Results

BINS = 100  # of episodes, over the longest run of a task
MOST_ROWS = 1000  # of metrics in a run; more are averaged
DIGITS = 9  # of each number

# The columns of metrics.csv to look at first, in the order of their charts.
_FIRST = (
    *(r"loss_\w+", r"(alpha|entropy|kl)(_\w+)?", r"q\d*_mean|v_mean|value|target_mean"),
    *(r"td_error_mean|explained_variance", r"frames_per_second", r"grad_norm_\w+"),
)
_NO_CHARTS = {"frames", "updates", "seconds", "env"}


class ChartData:
    """Collects what the script of the page draws.

    Args:
        results: the runs.
        estimator: of the curves of returns and their bands; metrics are means.
    """

    def __init__(self, results: Results, estimator: Estimator) -> None:
        self._results = results
        self._estimator = estimator
        self._arrays: dict[tuple[float | None, ...], int] = {}  # frames and seconds, each once
        self._run_numbers = {run: number for number, run in enumerate(results.runs["run"])}

    def content(self) -> dict[str, Any]:
        """What the script of the page draws, with None for what is not a finite number.

        Returns:
            - `groups`: their names, in the order of their colors;
            - `runs`: their seeds in words;
            - `tasks`: for each its `name`; `evaluations` and `episodes`, with `curves` over runs
              and single `runs`; and `metrics`, whose `charts` each have a `name` and `curves`.
              Averaged episodes and metrics tell the `width` of their bins in frames;
            - `arrays`: the frames and seconds of all curves.

            A curve has the numbers of its `group` and `line` or of its `run`, the places of its
            `frames` and `seconds` among the arrays, `value`, and `low` and `high` of a band.
        """
        results = self._results
        tasks = [self._task(str(task)) for task in sorted(set(results.runs["task"]))]
        return {
            "groups": [describe(key) for key in results.groups],
            "runs": [f"seed {seed}" for seed in results.runs["seed"]],
            "tasks": tasks,
            "arrays": [list(array) for array in self._arrays],
        }

    def _task(self, task: str) -> dict[str, Any]:
        evaluations, episodes, metrics = (
            table[table["task"] == task] if len(table) else table
            for table in (self._results.evaluations, self._results.episodes, self._results.metrics)
        )
        content: dict[str, Any] = {"name": task, "evaluations": self._returns(evaluations)}
        with warnings.catch_warnings():  # those of the evaluations say enough
            warnings.simplefilter("ignore", UserWarning)
            if len(episodes):
                width = bin_width(episodes["frames"].max(), BINS)
                binned = averaged_rows(episodes, width, ["return"])
                content["episodes"] = self._returns(binned, "return", same_interval=False)
                content["episodes"]["width"] = width
            if len(metrics):
                content["metrics"] = self._metrics(metrics)
        return content

    def _returns(
        self, rows: pd.DataFrame, column: str = "return_mean", *, same_interval: bool = True
    ) -> dict[str, Any]:
        rows = rows.dropna(subset=[column]) if len(rows) else rows
        runs = []
        for key, group in split(rows, ["task", *self._results.by]) if len(rows) else []:
            for run, values in group.groupby("run"):
                columns = [column, "seconds"] if _has_seconds(rows) else [column]
                of_frames = values.groupby("frames", as_index=False)[columns].mean()
                curve = self._curve(of_frames.rename(columns={column: "value"}))
                group_number = self._results.group_of(key)
                runs.append({"group": group_number, "run": self._run_numbers[str(run)], **curve})
        curves = self._curves(rows, column, self._estimator, same_interval=same_interval)
        return {"curves": list(curves), "runs": runs}

    def _metrics(self, metrics: pd.DataFrame) -> dict[str, Any]:
        columns = [
            name
            for name in metrics.columns
            if name not in (*self._results.runs.columns, *_NO_CHARTS)
            and pd.api.types.is_numeric_dtype(metrics[name])
            and metrics[name].notna().any()
        ]
        width = None
        if metrics.groupby("run").size().max() > MOST_ROWS:
            width = bin_width(metrics["frames"].max(), MOST_ROWS)
            metrics = averaged_rows(metrics, width, columns)
        charts = []
        for place, name in sorted((_place(name), name) for name in columns):
            curves = self._curves(metrics.dropna(subset=[name]), name, None)
            is_first = place < len(_FIRST)
            charts.append({"name": name, "first": is_first, "curves": list(curves)})
        return {"width": width, "charts": charts}

    def _curves(
        self,
        rows: pd.DataFrame,
        column: str,
        estimator: Estimator | None,
        *,
        same_interval: bool = True,
    ) -> Iterator[dict[str, Any]]:
        if rows.empty:
            return
        for key, line in comparable_lines(rows, self._results.by, same_interval=same_interval):
            part = [(key, line)]
            curve = aggregate_curves(
                part, column, None, estimator or Estimator(), interval=bool(estimator)
            )
            if _has_seconds(line):
                seconds = aggregate_curves(part, "seconds", None, Estimator(), interval=False)
                curve["seconds"] = seconds["value"]
            yield {
                "group": self._results.group_of(key),
                "line": key["line"],
                "runs": int(curve["runs"].iloc[0]),
                **self._curve(curve),
            }

    def _curve(self, curve: pd.DataFrame) -> dict[str, Any]:
        content: dict[str, Any] = {"frames": self._number_of(curve["frames"])}
        if "seconds" in curve:
            content["seconds"] = self._number_of(curve["seconds"])
        for name in ("value", "low", "high"):
            if name in curve and curve[name].notna().any():
                content[name] = rounded(curve[name])
        return content

    def _number_of(self, values: Iterable[float]) -> int:
        return self._arrays.setdefault(tuple(rounded(values)), len(self._arrays))


def averaged_rows(data: pd.DataFrame, width: int, columns: list[str]) -> pd.DataFrame:
    """Average the rows of each run in bins of frames.

    Args:
        data: a table of :func:`load_runs`.
        width: frames of a bin.
        columns: what is averaged. Names that end in `_min` and `_max` are extremes, and so remain.

    Returns:
        One row for each run and bin; `frames` is the last frame of the bin, `seconds` the latest.

    Example:
        >>> data = pd.DataFrame({"run": "a", "frames": [40, 100, 110], "return": [1.0, 3.0, 9.0]})
        >>> averaged_rows(data, 100, ["return"])
          run  frames  return
        0   a     100     2.0
        1   a     200     9.0
    """
    ways = {"seconds": "max"} if _has_seconds(data) else {}
    for name in columns:
        ways[name] = name[-3:] if name.endswith(("_min", "_max")) else "mean"
    rest = [name for name in data.columns if name not in (*ways, "run", "frames")]
    ends = np.ceil(data["frames"] / width) * width
    frames = ends.astype("int64") if np.isfinite(ends).all() else ends
    grouped = data.assign(frames=frames).groupby(["run", "frames"], as_index=False)
    table = grouped.agg({**dict.fromkeys(rest, "first"), **ways})
    return table[[name for name in data.columns if name in table]]


def bin_width(frames: float, bins: int) -> int:
    """The least of 1, 2, 5, 10, 20, ... with which that many bins reach over all frames.

    >>> bin_width(100_000, 100), bin_width(130_000, 100), bin_width(30, 100)
    (1000, 2000, 1)
    """
    least = frames / bins
    if not 1 < least < math.inf:
        return 1
    power = int(10 ** math.floor(math.log10(least)))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least)


def rounded(values: Iterable[float]) -> list[float | None]:
    """Numbers for JSON, of nine digits.

    >>> rounded([1.0, 2 / 3, math.nan])
    [1, 0.666666667, None]
    """
    texts = (f"{value:.{DIGITS}g}" for value in values)
    numbers = (float(text) for text in texts)
    return [
        (int(number) if number.is_integer() and abs(number) < 1e15 else number)
        if math.isfinite(number)
        else None
        for number in numbers
    ]


def _has_seconds(rows: pd.DataFrame) -> bool:
    """Whether each row tells the seconds since training began."""
    return (
        "seconds" in rows
        and pd.api.types.is_numeric_dtype(rows["seconds"])
        and bool(rows["seconds"].notna().all())
    )


def _place(name: str) -> int:
    """The place of a column of metrics among the charts."""
    matches = [bool(re.fullmatch(pattern, name)) for pattern in _FIRST]
    return [*matches, True].index(True)
