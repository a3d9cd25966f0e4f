"""The tables of the report, in which nothing of a run is markup."""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from rlkit_sac.analysis.config_columns import config_cells, differing_names
from rlkit_sac.analysis.figures import LINE_STYLES, look
from rlkit_sac.analysis.groups import describe, split
from rlkit_sac.analysis.performance import probability_of_improvement
from rlkit_sac.analysis.report.results import Results
from rlkit_sac.analysis.tables import cell_text

LAST = 100  # episodes at the end of a run
# Entries of run.json that tell how numbers and speed came about.
_SYSTEM = ("host", "platform", "python", "git_revision", "device", "num_threads", "parameters")
_VIDEOS = {".mp4", ".gif", ".webm"}
_BORDERS = dict(zip(LINE_STYLES, ("solid", "dashed", "dotted", "double"), strict=True))
_MOST_VALUES = 4  # that a cell lists


class HTML(str):
    """Text that is markup already."""


def escape(value: Any) -> HTML:
    """Any value as text in HTML, numbers rounded as in :func:`markdown_table`.

    >>> escape("<b>"), escape(12345.678), escape(None), escape(HTML("<b>"))
    ('&lt;b&gt;', '12346', '', '<b>')
    """
    if isinstance(value, HTML):
        return value
    return HTML(html.escape(cell_text(value)))


def html_table(headings: Sequence[str], rows: Iterable[Sequence[Any]], *, caption: str) -> HTML:
    """A table that scrolls within its own box; the exact number is the title of its cell.

    Args:
        headings: of the columns.
        rows: their cells.
        caption: what the table shows, for screen readers.

    >>> print(html_table(["task", "mean"], [["<Ant>", 12345.678]], caption="Results")[:72])
    <div class="scroll" tabindex="0" role="region" aria-label="Results"><tab
    """
    cells = pd.DataFrame([[*map(_markup, row)] for row in rows], columns=[*map(escape, headings)])
    with pd.option_context("display.max_colwidth", None):
        table = cells.to_html(index=False, border=0, escape=False, justify="left")
    table = table.replace(' style="text-align: left;"', "")  # which the page's policy forbids
    label = html.escape(caption)
    return HTML(
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{table}</div>'
    )


def _markup(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return escape(value)
    if isinstance(value, int):
        return f'<span class="number">{value:,}</span>'
    exact = "" if math.isnan(value) else f' title="{float(value)}"'
    return f'<span class="number"{exact}>{escape(value)}</span>'


def results_section(
    results: Results, performance: pd.DataFrame, interval: str, confidence: float
) -> HTML:
    """The table of :func:`final_performance`, and that of :func:`probability_of_improvement`.

    The latter has each pair of groups on each task; groups of a single run are left out.

    Args:
        results: the runs.
        performance: the first table.
        interval: what its interval is, in words.
        confidence: level of the intervals of the second.
    """
    if performance.empty:
        return HTML("<p>No run has an evaluation yet.</p>")
    titles = {"iqm": "IQM", "low": f"{interval} from", "high": "to", "best": "best ever"}
    rows = results.evaluations.dropna(subset=["return_mean"])
    groups = [group.groupby("run") for _, group in split(rows, ["task", *results.by])]
    table = performance.assign(frames=[_ends(runs["frames"].max()) for runs in groups])
    text = _group_table(results, table.rename(columns=titles), "Final performance")
    runs = rows.groupby(["task", *results.by], dropna=False)["run"].transform("nunique")
    pairs = [
        [*key.values(), *pair]
        for key, group in split(rows[runs > 1], ["task"])
        if len(split(group, results.by)) > 1
        for pair in probability_of_improvement(group, by=results.by, confidence=confidence)
        .query("x < y")
        .to_numpy()
    ]
    names = ["task", "x", "y", "tasks", "runs of x", "runs of y", "P(x > y)", "from", "to", "p"]
    return HTML(text + html_table(names, pairs, caption="Comparison")) if pairs else text


def legend(results: Results) -> HTML:
    """A box for each group, which hides and shows it in all charts."""
    boxes = (
        f'<label><input type="checkbox" value="group {at}" checked>{_group(results, key)}</label>'
        for at, key in enumerate(results.groups)
    )
    return HTML("\n".join(boxes))


def episodes_section(results: Results) -> HTML:
    """The table of :func:`episode_statistics`."""
    if results.episodes.empty:
        return HTML("<p>No training episode has ended yet.</p>")
    statistics = episode_statistics(results.episodes, results.by)
    return _group_table(results, statistics, "Training episodes")


def episode_statistics(episodes: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Tabulate the training episodes of each task and group.

    Args:
        episodes: a table of `load_runs(..., table="episodes")`.
        by: the grouping columns besides the task.

    Returns:
        One row for each task and group: `runs`, `episodes` of all runs together, and the means over
        the runs of their mean `length`, mean `return`, mean return of their last 100 episodes, and
        share of episodes that `terminated` by themselves; NaN where a table does not tell.

    Example:
        >>> episodes = pd.DataFrame({
        ...     "run": ["a", "a", "b"], "task": "X", "frames": [1, 2, 9], "return": [1.0, 2.0, 9.5],
        ... })
        >>> episode_statistics(episodes, [])[["task", "runs", "episodes", "return"]]
          task  runs  episodes  return
        0    X     2         3     5.5
    """
    rows = []
    for key, group in split(episodes, ["task", *by]):
        runs = group.groupby("run")
        # A row is one episode, or the means of so many.
        counts = group.get("episodes", pd.Series(index=group.index, dtype=float)).fillna(1)
        row = {**key, "runs": runs.ngroups, "episodes": int(counts.sum())}
        for name in ("length", "return", "terminated"):
            # A column of flags that lacks one holds objects.
            cells = group[name] if name in group else pd.Series(index=group.index, dtype=float)
            cells = cells.map(lambda cell: {"true": 1, "false": 0}.get(str(cell).lower(), cell))
            numbers = pd.to_numeric(cells, errors="coerce").astype(float)
            sums = (numbers * counts).groupby(group["run"]).sum(min_count=1)
            row[name] = (sums / counts.where(numbers.notna()).groupby(group["run"]).sum()).mean()
        row[f"return of last {LAST}"] = runs["return"].apply(lambda x: x.iloc[-LAST:].mean()).mean()
        rows.append(row)
    return pd.DataFrame(rows)


def config_section(results: Results) -> HTML:
    """What differs between the groups of runs, and what is the same in all."""
    runs = results.runs[results.runs["run"].isin(list(results.configs))]
    if runs.empty:
        return HTML("<p>No run has a configuration that can be read.</p>")
    configs = [results.configs[run] for run in runs["run"]]
    cells = config_cells(configs)
    cells.pop("seed", None)
    differing = set(differing_names(configs))
    groups = split(runs.reset_index(drop=True), ["task", *results.by])
    rows = [
        [name, *(_values([cells[name][row] for row in group.index]) for _, group in groups)]
        for name in cells
        if name in differing
    ]
    headings = ["option", *(describe(key) for key, _ in groups)]
    text = html_table(headings, rows, caption="Differing options")
    if not rows:
        text = HTML("<p>All runs have the same configuration, but for the seed.</p>")
    same = [[name, _value(cells[name][0])] for name in cells if name not in differing]
    table = html_table(["option", "value"], same, caption="Common options")
    title = f"{len(same)} options that are the same in all runs"
    return HTML(f"{text}\n<details><summary>{title}</summary>{table}</details>")


def runs_section(results: Results) -> HTML:
    """A row for each run: how far it is and how it ended; then the commands."""
    rows, commands = [], []
    for row in results.runs.to_dict("records"):
        run, info = row["run"], results.descriptions.get(row["run"], {})
        frames, seconds = (_last(results, run, name) for name in ("frames", "seconds"))
        total = results.configs.get(run, {}).get("collector.total_frames")
        status = escape(row["status"])
        rows.append(
            {
                "run": results.names[run],
                "group": _group(results, row),
                "seed": row["seed"],
                "status": HTML(f'<span class="status {status}">{status}</span>'),
                "error": _text(info.get("error")),
                "frames": f"{_count(frames)} of {_count(total)}" if total else _count(frames),
                "time": _duration(seconds),
                "started": _text(info.get("started"))[:16].replace("T", " "),
                "resumed": len(info.get("sessions") or []) or "",
            }
        )
        command = HTML(f"<code>{escape(_text(info.get('command')))}</code>")
        commands.append([results.names[run], command])
    headings = [name for name in rows[0] if any(row[name] != "" for row in rows)]
    cells = [[row[name] for name in headings] for row in rows]
    table = html_table(headings, cells, caption="Runs")
    listing = html_table(["run", "command"], commands, caption="Commands")
    return HTML(f"{table}\n<details><summary>Commands</summary>{listing}</details>")


def system_section(results: Results) -> HTML:
    """Versions and hardware: what all runs share, and a row for each run of what differs."""
    facts = {run: _system(info) for run, info in results.descriptions.items()}
    if not facts:
        return HTML("<p>No run tells its versions.</p>")
    cells, differing = config_cells(list(facts.values())), differing_names(list(facts.values()))
    common = [[name, values[0]] for name, values in cells.items() if name not in differing]
    text = html_table(["in all runs", "value"], common, caption="Versions and hardware of all runs")
    if not differing:
        return text
    rows = [[results.names[run], *map(each.get, differing)] for run, each in facts.items()]
    table = html_table(["run", *differing], rows, caption="Versions and hardware that differ")
    names_text = ", ".join(map(escape, differing))
    return HTML(f'<p class="note">Not the same in all runs: {names_text}.</p>\n{table}\n{text}')


def videos_section(results: Results, folder: Path) -> HTML:
    """Links to the videos of each run, relative to the page.

    Args:
        results: the runs.
        folder: where the page lies.
    """
    rows = []
    for run, name in results.names.items():
        videos = Path(run, "videos")
        files = sorted(videos.iterdir()) if videos.is_dir() else []
        links = [
            HTML(f'<a href="{_link(file, folder)}">{escape(file.name)}</a>')
            for file in files
            if file.suffix in _VIDEOS and file.is_file()
        ]
        if links:
            rows.append([name, HTML(", ".join(links))])
    return html_table(["run", "videos"], rows, caption="Videos") if rows else HTML("")


def _link(file: Path, folder: Path) -> HTML:
    """A relative address, in which each character with a meaning is quoted, also a colon."""
    relative = Path(os.path.relpath(file, folder)).as_posix()
    return escape("./" + PurePosixPath("/", relative).as_uri().removeprefix("file:///"))


def _group_table(results: Results, table: pd.DataFrame, caption: str) -> HTML:
    """A table with a row for each task and group, whose grouping columns become one."""
    numbers = [name for name in table.columns if name not in ("task", *results.by)]
    rows = [
        [row["task"], _group(results, row), *(row[name] for name in numbers)]
        for row in table.to_dict("records")
    ]
    return html_table(["task", "group", *numbers], rows, caption=caption)


def _group(results: Results, row: Mapping[Any, Any]) -> HTML:
    key = {name: None if pd.isna(row[name]) else row[name] for name in results.by}
    color, style = look(results.group_of(key))
    swatch = f'<span class="swatch" style="border-top: 3px {_BORDERS[style]} {color}"></span>'
    return HTML(f"{swatch}{escape(describe(key))}")


def _ends(frames: pd.Series) -> Any:
    """The last frames of some runs."""
    first, last = int(frames.min()), int(frames.max())
    return first if first == last else HTML(f'<span class="number">{first:,} to {last:,}</span>')


def _values(cells: list[Any]) -> Any:
    different = list(dict.fromkeys(map(_value, cells)))
    if len(different) == 1:
        return different[0]
    more = len(different) - _MOST_VALUES
    text = " | ".join(different[:_MOST_VALUES]) + (f" | {more} more" if more > 0 else "")
    return HTML(f'<span class="mixed" title="differs within the group">{escape(text)}</span>')


def _value(cell: Any) -> str:
    return cell if isinstance(cell, str) else json.dumps(cell, default=str)


def _system(info: Mapping[str, Any]) -> dict[str, str]:
    facts = {name: info[name] for name in _SYSTEM if info.get(name) is not None}
    facts |= info.get("versions", {})
    return {name: _text(value) for name, value in facts.items()}


def _text(value: Any) -> str:
    return "" if value is None else _value(value)


def _last(results: Results, run: str, name: str) -> float | None:
    """The largest number of a column among all rows of a run."""
    tables = (results.evaluations, results.episodes, results.metrics)
    numeric = (t for t in tables if name in t and pd.api.types.is_numeric_dtype(t[name]))
    ends = (table[name][table["run"] == run].max() for table in numeric)
    return max((float(end) for end in ends if pd.notna(end)), default=None)


def _count(frames: Any) -> str:
    return f"{frames:,.0f}" if isinstance(frames, (int, float)) else _text(frames)


def _duration(seconds: float | None) -> str:
    if seconds is None or not 0 <= seconds < 1e9:
        return ""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
