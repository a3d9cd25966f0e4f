"""The report: an HTML page about runs, with tables by pandas and charts by plotly.

The template of the page is ``report.html`` beside this file.
"""

from __future__ import annotations

import itertools
import math
import os
import warnings
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from functools import partial
from html import escape
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from rlkit_sac._version import __version__
from rlkit_sac.analysis.config_columns import option_columns, read_config_file
from rlkit_sac.analysis.curves import aggregate_curves
from rlkit_sac.analysis.estimates import Estimator, Statistic
from rlkit_sac.analysis.external import COLUMNS, find_external_runs, load_external_runs
from rlkit_sac.analysis.figures import COLORS
from rlkit_sac.analysis.files import Paths, as_paths, read_runs
from rlkit_sac.analysis.groups import (
    describe,
    grouping_columns,
    split,
    split_comparable,
    warn,
)
from rlkit_sac.analysis.performance import final_performance, probability_of_improvement
from rlkit_sac.analysis.runs import TABLES, find_runs, load_runs, read_description
from rlkit_sac.analysis.tables import cell_text, write_text
from rlkit_sac.errors import ConfigError, RunError, check_installed

# Entries of run.json about software and hardware, on which numbers and speed depend.
_SYSTEM = "^(host|platform|python|git_revision|device|num_threads|parameters|versions.*)$"
_RUNS = "name group task seed status error frames total_frames seconds started resumed command"
_AXES = {"x": "frames", "y": "value", "color": "group", "line_group": "line", "facet_col": "panel"}
_LOOKS = {
    "color_discrete_sequence": COLORS,
    "hover_data": ["low", "high"],
    "template": "plotly_white",
}
Panels = Iterable[tuple[str, pd.DataFrame, str]]  # title, rows and column of each
Results = tuple[pd.DataFrame, pd.DataFrame, dict[str, pd.DataFrame]]
_DASHES = [dash for dash in ("solid", "dash", "dot", "dashdot") for _ in COLORS]
_BAND = {"fill": "toself", "mode": "none", "hoverinfo": "skip", "showlegend": False}


def write_report(
    paths: Paths,
    path: str | PathLike[str],
    *,
    by: str | Sequence[str] | None = None,
    statistic: Statistic = "mean",
    confidence: float = 0.95,
    title: str | None = None,
    task: str | None = None,
) -> None:
    r"""Write an HTML page about runs, which needs no other file and no network.

    The page shows final performance, learning curves, metrics, training episodes, differences
    between configurations, versions and hardware. Its numbers come from :func:`final_performance`
    and :func:`learning_curves`. Each task and group is a curve; runs of a group that differ in
    length or interval are separate curves, as in :func:`plot_learning_curves`.

    Unfinished and failed runs are shown up to their last rows; damaged ones are left out. The page
    repeats all warnings.

    Args:
        paths: a run directory, a directory above runs, or several of either; also directories of
            logs that :func:`load_external_runs` reads.
        path: the `.html` file; an existing one is replaced. Missing directories are created.
        by: the grouping columns besides the task, such as `("recipe", "update.lr_actor")`. Default:
            `recipe` and `configuration`.
        statistic: `"mean"` (default) or `"iqm"`, the interquartile mean, over the runs of a group.
        confidence: level of the intervals. Default 0.95.
        title: the title of the page. Default: the tasks.
        task: the task of the logs of other systems. Default: the task in their files.

    Raises:
        ConfigError: plotly is not installed, a path does not exist, no run is found, `by` has a
            name that no configuration has, or the page cannot be written.
        RunError: no run can be read.

    Example:
        >>> import tempfile
        >>> run = Path(tempfile.mkdtemp())
        >>> text = '{"recipe": "sac", "task": "Ant-v5", "seed": 0, "status": "finished"}'
        >>> _ = (run / "run.json").write_text(text)
        >>> _ = (run / "config.yaml").write_text("update: {lr_actor: 0.001}")
        >>> _ = (run / "evaluations.csv").write_text("frames,return_mean\n1000,-150.0\n")
        >>> write_report(run, run / "report.html")
        >>> "<title>Runs on Ant-v5</title>" in (run / "report.html").read_text()
        True
    """
    path = Path(path)
    check_installed("plotly", extra="plots")
    from plotly.offline import get_plotlyjs

    estimator = Estimator(statistic, confidence)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runs, configs, tables = read_results(paths, by, task)
        sections = {
            "results": _result_tables(tables["evaluations"], estimator),
            "curves": _chart(_return_panels(tables), estimator, 2),
            "metrics": _chart(_metric_panels(tables["metrics"]), Estimator(resamples=0), 3),
            "episodes": _html(episode_statistics(tables["episodes"], ["group"])),
            "configuration": _difference_tables(configs, runs["group"] + " on " + runs["task"]),
            "runs": _html(runs.reindex(columns=_RUNS.split()).dropna(axis="columns", how="all")),
            "videos": _video_links(runs["run"], path.resolve().parent),
            "system": _difference_tables(runs.filter(regex=_SYSTEM), runs["name"]),
        }
    notes = dict.fromkeys(str(x.message) for x in caught if x.category is UserWarning)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    template = Template(Path(__file__).with_suffix(".html").read_text(encoding="utf-8"))
    sections["title"] = escape(title or f"Runs on {', '.join(sorted(set(runs['task'])))}")
    sections["made"] = f"{__version__}, {datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"
    sections["notes"] = "".join(f"<li>{escape(note)}</li>" for note in notes)
    sections["band"] = f"{statistic} over runs, {100 * confidence:g}% bootstrap interval"
    write_text(path, template.substitute(sections, plotly=get_plotlyjs()))


def read_results(paths: Paths, by: str | Sequence[str] | None, task: str | None) -> Results:
    """Read all tables of all runs at or below some paths, of recipes and of other systems.

    Damaged runs and tables are left out with warnings.

    Args:
        paths: the paths of runs, as for :func:`load_runs` and :func:`load_external_runs`.
        by: the grouping columns besides the task.
        task: the task of the logs of other systems.

    Returns:
        Three results: a table of the runs with `group`, `name` and the entries of `run.json`; a
        table of the configurations; and the tables `evaluations`, `episodes` and `metrics` by name,
        with `group`. The first two are indexed by run.

    Raises:
        ConfigError: a path does not exist, there is no run, or no configuration has a value that
            `by` names.
        RunError: no run can be read.
    """
    paths = as_paths(paths)
    logs = find_external_runs(paths)
    run_dirs = find_runs([path for path in paths if not path.is_file()], required=not logs)
    loaded = read_runs(run_dirs, lambda x: (read_description(x / "run.json"), read_config_file(x)))
    load = partial(load_runs, list(loaded)), partial(load_external_runs, paths, task=task)
    jobs: list[tuple[str, Any]] = [(name, load[0]) for name in TABLES if loaded]
    jobs += [(name, load[1]) for name in COLUMNS if logs]
    empty = pd.DataFrame(columns=["run", "task", "frames", "return_mean", "return"])
    parts = {name: [empty] for name in TABLES}
    for name, load_table in jobs:
        try:
            parts[name].append(load_table(table=name))
        except (ConfigError, RunError) as error:  # noqa: PERF203
            warn(f"no {name} were read: {error}")
    joined = {name: pd.concat(rows, ignore_index=True) for name, rows in parts.items()}
    tables = {name: table.infer_objects() for name, table in joined.items()}
    index, options = [*map(str, loaded)], [config for _, config in loaded.values()]
    configs = pd.DataFrame(option_columns(options), index=index, dtype=object)
    runs = pd.json_normalize([info for info, _ in loaded.values()]).set_axis(index)
    runs["resumed"] = [len(info.get("sessions", ())) for info, _ in loaded.values()]
    runs["total_frames"] = configs.get("collector.total_frames")
    rows = pd.concat(tables.values())
    runs = pd.concat([runs.assign(run=index), rows]).drop_duplicates("run")
    runs = runs.set_index("run", drop=False)
    runs["name"] = runs["run"].map(os.path.relpath)
    ends = rows.reindex(columns=["run", "frames", "seconds"]).groupby("run").max()
    runs[["frames", "seconds"]] = ends
    by = grouping_columns(by, runs)
    settings = option_columns(options, [name for name in by if name not in runs])
    runs = runs.join(pd.DataFrame(settings, index=index))
    groups = {run: describe(key) for key, rows in split(runs, by) for run in rows["run"]}
    for table in (runs, *tables.values()):
        table["group"] = table["run"].map(groups)
    return runs, configs.drop(columns="seed", errors="ignore"), tables


def _return_panels(tables: dict[str, pd.DataFrame]) -> Panels:
    """Yield title, rows and column of each panel of returns."""
    for task, rows in tables["evaluations"].dropna(subset="return_mean").groupby("task"):
        yield f"{task}: return of evaluations", rows, "return_mean"
        if "success_rate" in rows.dropna(axis="columns", how="all"):
            yield f"{task}: success rate", rows.dropna(subset="success_rate"), "success_rate"
    for task, rows in tables["episodes"].dropna(subset="return").groupby("task"):
        width = bin_width(rows["frames"].max(), bins=100)
        ends = np.ceil(rows["frames"] / width).astype("int64") * width
        binned = rows.assign(frames=ends).groupby(["task", "group", "run", "frames"])
        means = binned["return"].mean().reset_index()
        yield f"{task}: return of training episodes, means over {width:,} frames", means, "return"


def _metric_panels(metrics: pd.DataFrame) -> Panels:
    """Yield title, rows and column of each panel of metrics."""
    for task, rows in metrics.groupby("task"):
        numbers = rows.dropna(axis="columns", how="all").select_dtypes("number")
        for name in numbers.drop(columns=["seed", "frames", "updates", "seconds"], errors="ignore"):
            yield f"{task}: {name}", rows.dropna(subset=name), name


def bin_width(frames: float, bins: int) -> int:
    """Return the smallest width among 1, 2, 5, 10, 20, ... at which the bins cover all frames.

    >>> bin_width(100_000, 100), bin_width(130_000, 100), bin_width(30, 100)
    (1000, 2000, 1)
    """
    widths = (step * 10**power for power in itertools.count() for step in (1, 2, 5))
    return next(width for width in widths if width * bins >= frames)


def _chart(panels: Panels, estimator: Estimator, panels_per_row: int) -> str:
    """Return the HTML of a chart with panels."""
    curves = []
    for title, rows, column in panels:
        lines = split_comparable(rows, ["group"], same_interval=column != "return")
        curves.append(aggregate_curves(lines, column, None, estimator).assign(panel=title))
    if not curves:
        return "<p>No run has such rows yet.</p>"
    from plotly.express import line

    table = pd.concat(curves).replace("<", "&lt;", regex=True)  # names are text, not markup
    count = math.ceil(len(curves) / panels_per_row)
    facets: dict[str, Any] = {"facet_col_wrap": panels_per_row, "facet_row_spacing": 0.3 / count}
    facets |= {"line_dash": "group", "line_dash_sequence": _DASHES, "facet_col_spacing": 0.06}
    figure = line(table, height=330 * count, **_AXES, **_LOOKS, **facets)
    figure.update_xaxes(matches=None, showticklabels=True)
    figure.update_yaxes(matches=None, showticklabels=True, title="")
    figure.for_each_annotation(lambda text: text.update(text=text.text.removeprefix("panel=")))
    for curve in figure.data:
        low, high = np.transpose(curve.customdata)
        panel = {name: curve[name] for name in ("xaxis", "yaxis", "legendgroup")}
        x, y = np.concatenate([curve.x, curve.x[::-1]]), np.concatenate([low, high[::-1]])
        figure.add_scatter(x=x, y=y, fillcolor=curve.line.color, opacity=0.2, **_BAND, **panel)
    return str(figure.to_html(full_html=False, include_plotlyjs=False))


def episode_statistics(episodes: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Tabulate the training episodes of each task and group.

    Args:
        episodes: a table of `load_runs(..., table="episodes")`.
        by: the grouping columns besides the task.

    Returns:
        Means over runs of the means within each run.

    Example:
        >>> episodes = pd.DataFrame({
        ...     "run": ["a", "a", "b"], "task": "X", "frames": [5, 9, 7], "return": [1.0, 3.0, 9.0],
        ... })
        >>> episode_statistics(episodes, [])[["task", "runs", "episodes", "return"]]
          task  runs  episodes  return
        0    X     2         3     5.5
    """
    rows = []
    for key, group in split(episodes, ["task", *by]):
        # A row is one episode, or the mean of the number in its column `episodes`.
        counts = group.get("episodes", pd.Series(index=group.index, dtype=float)).fillna(1)
        cells = group.reindex(columns=["length", "return", "terminated", "success"])
        numbers = cells.replace({"true": 1, "false": 0}).apply(pd.to_numeric)
        sums = numbers.mul(counts, axis=0).groupby(group["run"]).sum()
        means = sums / numbers.notna().mul(counts, axis=0).groupby(group["run"]).sum()
        last = group.groupby("run").tail(100).groupby("run")["return"].mean().mean()
        row = {**key, "runs": len(means), "episodes": int(counts.sum()), **means.mean()}
        rows.append({**row, "return of last 100": last})
    return pd.DataFrame(rows)


def _result_tables(evaluations: pd.DataFrame, estimator: Estimator) -> str:
    """Return tables of final performance, and of the probability of improvement for each task.

    The latter compare pairs of groups with several runs.
    """
    rows = evaluations.dropna(subset=["return_mean"])
    if rows.empty:
        return _html(rows)
    confidence, statistic = estimator.confidence, estimator.statistic
    table = final_performance(rows, by="group", statistic=statistic, confidence=confidence)
    tables = [table.assign(longest=rows.groupby(["task", "group"])["frames"].max().to_numpy())]
    for task, task_rows in rows.groupby("task"):
        if task_rows["group"].nunique() > 1:
            pairs = probability_of_improvement(task_rows, by="group", confidence=confidence)
            tables.append(pairs.query("x < y and runs_x > 1 and runs_y > 1").assign(tasks=task))
    return "".join(_html(table) for table in tables if len(table))


def _difference_tables(cells: pd.DataFrame, labels: pd.Series) -> str:
    """Return two tables: values that differ, with a column for each label, and common values."""
    if cells.empty:
        return _html(cells)
    texts = cells.where(cells.notna(), "null").astype(str)
    differing = texts.loc[:, texts.nunique() > 1]
    values = {
        label: [" | ".join(part[name].unique()) for name in part]
        for label, part in differing.groupby(labels)
    }
    table = pd.DataFrame(values, differing.columns)
    common = texts.drop(columns=differing.columns).iloc[0].rename("in all runs")
    return "".join(_html(x.rename_axis("").reset_index()) for x in (table, common))


def _video_links(runs: Iterable[str], folder: Path) -> str:
    """Return links to the videos of the runs, relative to the folder of the page."""
    files = [file for run in runs for file in sorted(Path(run).glob("videos/*.mp4"))]
    links = ((quote(Path(os.path.relpath(file, folder)).as_posix()), file) for file in files)
    return "".join(f'<li><a href="./{link}">{escape(str(file))}</a></li>' for link, file in links)


def _html(table: pd.DataFrame) -> str:
    """Return the HTML of a table, which scrolls in a box and shows markup as text."""
    if table.empty:
        return "<p>No run has such rows yet.</p>"
    with pd.option_context("display.max_colwidth", None):
        text = table.to_html(index=False, border=0, na_rep="", float_format=cell_text)
    return f'<div class="scroll">{text}</div>'
