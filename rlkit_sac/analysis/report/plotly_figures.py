"""The figures of the report, by plotly."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from rlkit_sac.analysis.curves import aggregate_curves
from rlkit_sac.analysis.estimates import Estimator
from rlkit_sac.analysis.figures import FEW_POINTS, LINE_STYLES, count_text, look
from rlkit_sac.analysis.groups import Key, comparable_lines, describe
from rlkit_sac.analysis.report.results import Results

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

BINS = 100  # of episodes, over the longest run of a task
MOST_ROWS = 1000  # of metrics in a run; more are averaged
METRICS_PER_ROW = 3

# The columns of metrics.csv to look at first, in the order of their panels.
_FIRST = (
    *(r"loss_\w+", r"(alpha|entropy|kl)(_\w+)?", r"q\d*_mean|v_mean|value|target_mean"),
    *(r"td_error_mean|explained_variance", r"frames_per_second", r"grad_norm_\w+"),
)
_NO_PANELS = {"frames", "updates", "seconds", "env"}
_text = partial(escape, quote=False)  # what plotly shows
_DASHES = dict(zip(LINE_STYLES, ("solid", "dash", "dot", "dashdot"), strict=True))


class Figures:
    """Draws the curves of each task.

    Args:
        results: the runs.
        estimator: of the curves of returns and their bands; metrics are means without a band.
    """

    def __init__(self, results: Results, estimator: Estimator) -> None:
        self._results, self._estimator = results, estimator

    def returns(self, task: str) -> Figure:
        """Evaluations and training episodes side by side; single runs are hidden at first.

        Args:
            task: its name.
        """
        tables = {"evaluations": (self._table("evaluations", task), "return_mean")}
        episodes = self._table("episodes", task)
        if len(episodes):
            width = bin_width(episodes["frames"].max(), BINS)
            title = f"training episodes, means over {width:,} frames"
            tables[title] = averaged_rows(episodes, width, ["return"]), "return"
        figure = _panels([f"Return of {title}" for title in tables], 2, height=400)
        for panel, (table, column) in enumerate(tables.values()):
            rows = table.dropna(subset=[column]) if len(table) else table
            lines = self._lines(rows, column, self._estimator, same_interval=panel == 0)
            for key, line, curve in lines:
                self._draw(figure, panel, key, curve, f" ({count_text(curve['runs'], 'run')})")
                self._draw_runs(figure, panel, key, line, column)
        return figure

    def metrics(self, task: str) -> Figure:
        """A panel for each column of ``metrics.csv``.

        Args:
            task: its name.
        """
        table = self._table("metrics", task)
        columns = [
            name
            for name in table.columns
            if name not in (*self._results.runs.columns, *_NO_PANELS)
            and pd.api.types.is_numeric_dtype(table[name])
            and table[name].notna().any()
        ]
        columns.sort(key=lambda name: (_place(name), name))
        if len(table) and table.groupby("run").size().max() > MOST_ROWS:
            table = averaged_rows(table, bin_width(table["frames"].max(), MOST_ROWS), columns)
        figure = _panels(columns, METRICS_PER_ROW, height=230)
        for panel, name in enumerate(columns):
            rows = table.dropna(subset=[name])
            for key, _, curve in self._lines(rows, name, Estimator(resamples=0)):
                self._draw(figure, panel, key, curve)
        return figure

    def _table(self, name: str, task: str) -> pd.DataFrame:
        table: pd.DataFrame = getattr(self._results, name)
        return table[table["task"] == task] if len(table) else table

    def _lines(
        self,
        rows: pd.DataFrame,
        column: str,
        estimator: Estimator,
        *,
        same_interval: bool = True,
    ) -> Iterator[tuple[Key, pd.DataFrame, pd.DataFrame]]:
        """The key, the rows and the curve of each line."""
        if rows.empty:
            return
        with warnings.catch_warnings():
            if column != "return_mean":  # the warnings of evaluations say enough
                warnings.simplefilter("ignore", UserWarning)
            lines = comparable_lines(rows, self._results.by, same_interval=same_interval)
        for key, line in lines:
            yield key, line, aggregate_curves([(key, line)], column, None, estimator)

    def _draw(
        self, figure: Figure, panel: int, key: Key, curve: pd.DataFrame, count: str = ""
    ) -> None:
        """A line, with its band below it where it has one."""
        number = self._results.group_of(key)
        color, style = look(number)
        shared = _place_of(figure, panel, f"group {number}")
        x, y = curve["frames"], curve["value"]
        interval = ""
        if curve["low"].notna().all():
            interval = " [%{customdata[0]:.6g}, %{customdata[1]:.6g}]"
            figure.add_scatter(
                x=np.concatenate([x, x[::-1]]),
                y=np.concatenate([curve["high"], curve["low"][::-1]]),
                fill="toself",
                fillcolor=color,
                opacity=0.2,
                line={"width": 0},
                mode="lines",
                hoverinfo="skip",
                **shared,
            )
        name = _text(f"{describe(self._results.groups[number])}{count}")
        figure.add_scatter(
            x=x,
            y=y,
            name=name,
            mode="lines+markers" if len(curve) <= FEW_POINTS else "lines",
            marker={"size": 4},
            line={"color": color, "dash": _DASHES[style], "width": 1.5 if key["line"] else 2},
            opacity=0.6 if key["line"] else 1,
            customdata=curve[["low", "high"]] if interval else None,
            hovertemplate=f"%{{y:.6g}}{interval}<extra>{name}</extra>",
            **shared,
        )

    def _draw_runs(
        self, figure: Figure, panel: int, key: Key, line: pd.DataFrame, column: str
    ) -> None:
        """Every run of a line, hidden until the page's legend asks for it."""
        if line["run"].nunique() < 2:
            return
        number = self._results.group_of(key)
        name = f"{_text(describe(self._results.groups[number]))}: each run"
        runs = [of_run.groupby("frames")[column].mean() for _, of_run in line.groupby("run")]
        gap = pd.Series([math.nan], index=[math.nan])
        joined = pd.concat([part for run in runs for part in (run, gap)])
        figure.add_scatter(
            x=joined.index,
            y=joined,
            name=name,
            mode="lines",
            line={"color": look(number)[0], "width": 1},
            visible=False,
            meta="run",
            hovertemplate="%{y:.6g}",
            **_place_of(figure, panel, f"group {number}"),
        )


def _panels(titles: list[str], columns: int, *, height: int) -> Figure:
    """An empty figure with a panel for each title."""
    from plotly.subplots import make_subplots

    rows = max(1, math.ceil(len(titles) / columns))
    figure = make_subplots(
        rows,
        columns,
        subplot_titles=[_text(title) for title in titles],
        vertical_spacing=0.25 / rows,
        horizontal_spacing=0.06,
    )
    figure.update_layout(
        template="plotly_white",
        height=height * rows + 60,
        margin={"l": 50, "r": 20, "t": 60, "b": 40},
        showlegend=False,
        hovermode="x unified",
        hoverlabel={"namelength": -1},
    )
    figure.update_annotations(font_size=13)
    return figure


def _place_of(figure: Figure, panel: int, group: str) -> dict[str, Any]:
    """The panel of a trace, and the traces that a box of the page's legend hides and shows."""
    row, column = divmod(panel, len(figure._grid_ref[0]))
    return {"row": row + 1, "col": column + 1, "legendgroup": group}


def averaged_rows(data: pd.DataFrame, width: int, columns: list[str]) -> pd.DataFrame:
    """Average the rows of each run in bins of frames.

    Args:
        data: a table of :func:`load_runs`.
        width: frames of a bin.
        columns: what is averaged. Names that end in `_min` and `_max` are extremes, and so remain.

    Returns:
        One row for each run and bin; `frames` is the last frame of the bin.

    Example:
        >>> data = pd.DataFrame({"run": "a", "frames": [40, 100, 110], "return": [1.0, 3.0, 9.0]})
        >>> averaged_rows(data, 100, ["return"])
          run  frames  return
        0   a     100     2.0
        1   a     200     9.0
    """
    ways = {name: name[-3:] if name.endswith(("_min", "_max")) else "mean" for name in columns}
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


def _place(name: str) -> int:
    """The place of a column of metrics among the panels."""
    matches = [bool(re.fullmatch(pattern, name)) for pattern in _FIRST]
    return [*matches, True].index(True)
