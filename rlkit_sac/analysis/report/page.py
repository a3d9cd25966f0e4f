"""The page: parts that are read from files beside this one, and the tables and data of runs."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from os import PathLike
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import pandas as pd

from rlkit_sac._version import __version__
from rlkit_sac.analysis.estimates import Estimator, Statistic
from rlkit_sac.analysis.figures import count_text
from rlkit_sac.analysis.files import Paths
from rlkit_sac.analysis.performance import final_performance
from rlkit_sac.analysis.report import sections
from rlkit_sac.analysis.report.plotly_figures import MOST_ROWS, Figures
from rlkit_sac.analysis.report.results import read_results
from rlkit_sac.analysis.report.sections import escape
from rlkit_sac.errors import ConfigError, check_installed

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def write_report(
    paths: Paths | pd.DataFrame,
    path: str | PathLike[str],
    *,
    by: str | Sequence[str] | None = None,
    statistic: Statistic = "mean",
    confidence: float = 0.95,
    title: str | None = None,
    task: str | None = None,
) -> None:
    r"""Write one HTML page about runs, which needs no other file and no network.

    It shows the final performance, learning curves, metrics, training episodes, differences between
    configurations, and versions and hardware. Numbers are those of :func:`final_performance` and
    :func:`learning_curves`; each task and group is a curve, and runs of a group that differ in
    length or interval are curves of their own, as of :func:`plot_learning_curves`.

    Runs that are still being written, or failed, are shown as far as they are; damaged ones are
    left out. Warnings stand on the page.

    Args:
        paths: a run directory, a directory above runs, or several of either, also with logs that
            :func:`load_external_runs` reads; or a table of it or of :func:`load_runs`.
        path: the page, `.html`; an existing one is replaced. Missing directories are created.
        by: the grouping columns besides the task, such as `("recipe", "update.lr_actor")`. Default:
            `recipe` and `configuration`.
        statistic: `"mean"` (default) or `"iqm"`, the interquartile mean, over the runs of a group.
        confidence: level of the intervals. Default 0.95.
        title: of the page. Default: the tasks.
        task: of the logs of other systems. Default: what their files tell.

    Raises:
        ConfigError: plotly is not installed, a path does not exist, no run is found, `by` names
            what no configuration or column has, or the page has another suffix or cannot be
            written.
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
    if path.suffix not in (".html", ".htm"):
        raise ConfigError(f"{path} ends in {path.suffix!r}; a report is written as .html")
    check_installed("plotly", extra="plots")
    from plotly.offline import get_plotlyjs

    name = "mean" if statistic == "mean" else "interquartile mean"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = read_results(paths, by, task)
        figures = Figures(results, Estimator(statistic, confidence))
        tasks = sorted(set(map(str, results.runs["task"])))
        curves = _charts({task: figures.returns(task) for task in tasks})
        metrics = _charts({task: figures.metrics(task) for task in tasks})
        performance = pd.DataFrame()
        if not results.evaluations.empty:
            performance = final_performance(
                results.evaluations, by=results.by, statistic=statistic, confidence=confidence
            )
        interval = f"{name}, {100 * confidence:g}%"
        tables = sections.results_section(results, performance, interval, confidence)
    notes = list(dict.fromkeys(str(x.message) for x in caught if x.category is UserWarning))
    for note in notes:
        warnings.warn(note, stacklevel=2)
    library = f"<script>{get_plotlyjs()}</script>"
    style, template = (
        Path(__file__).with_name(name).read_text(encoding="utf-8")
        for name in ("report.css", "template.html")
    )
    scripts = re.findall("(?s)<script[^>]*>(.*?)</script>", library + curves + metrics + template)
    text = Template(template).substitute(
        style=style,
        library=library,
        script_hashes=" ".join(map(_hash, scripts)),
        legend=sections.legend(results),
        curves=curves,
        metrics=metrics,
        title=escape(title or f"Runs on {', '.join(tasks)}"),
        runs=count_text([len(results.runs)], "run"),
        tasks=count_text([len(tasks)], "task"),
        made=f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
        version=__version__,
        statistic=name,
        interval=f"{100 * confidence:g}% bootstrap interval",
        rows=str(MOST_ROWS),
        notes=_notes(notes, results.root),
        results=tables,
        episodes=sections.episodes_section(results),
        configuration=sections.config_section(results),
        run_table=sections.runs_section(results),
        system=sections.system_section(results),
        videos=sections.videos_section(results, path.resolve().parent),
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "replace"))
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error


def _charts(figures: Mapping[str, Figure]) -> str:
    """The figures of the tasks, without what draws them."""
    buttons = [["toImage", "zoom2d", "pan2d", "resetScale2d"]]
    config = {"responsive": True, "displaylogo": False, "modeBarButtons": buttons}
    parts = [
        f"<h3>{escape(task)}</h3>"
        + figure.to_html(full_html=False, include_plotlyjs=False, config=config)
        for task, figure in figures.items()
        if figure.data
    ]
    return "\n".join(parts) or "<p>No run has such rows yet.</p>"


def _notes(notes: Sequence[str], root: str) -> str:
    """A list of warnings, with paths relative to the folder of all runs."""
    notes = [note.replace(f"{root}{os.sep}", "") for note in notes]
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<aside class="notes" aria-label="Notes"><ul>{items}</ul></aside>' if items else ""


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
