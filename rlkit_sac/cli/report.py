"""``rlkit-sac report``: one HTML page about runs.

Examples:
    rlkit-sac report runs/sac/Pendulum-v1/<run>
    rlkit-sac report runs --output report.html
    rlkit-sac report runs/sac runs/acer -o both.html --by recipe,loss.gamma
    rlkit-sac report runs logs_of_sb3 -o both.html --task Pendulum-v1
"""

from __future__ import annotations

import argparse
import sys
import warnings

SUMMARY = "write one HTML page about runs: curves, tables, metrics, options"
_RUNS = "run directories, folders above them, or logs of Stable-Baselines3, CleanRL and TorchRL"
_BY = """columns that group the runs of a task, separated by commas: recipe, configuration, seed,
status, run, or options such as update.lr_actor (default: recipe,configuration)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the runs, the page, and the options of groups and statistics."""
    add = parser.add_argument
    add("runs", metavar="RUNS", nargs="+", help=_RUNS)
    add("-o", "--output", metavar="FILE", default="report.html", help="page (default: report.html)")
    add("--by", metavar="NAMES", help=_BY)
    add("--statistic", choices=("mean", "iqm"), default="mean", help="mean (default) or iqm")
    add("--confidence", type=float, default=0.95, metavar="LEVEL", help="level of the intervals")
    add("--title", help="title of the page (default: the tasks)")
    add("--task", help="task of logs that do not name theirs")


def run(arguments: argparse.Namespace) -> int:
    """Write the page, and print its path and the warnings about runs."""
    from rlkit_sac.analysis import write_report

    names = ("statistic", "confidence", "title", "task")
    options = {name: getattr(arguments, name) for name in names}
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", UserWarning)
        by = arguments.by and arguments.by.split(",")
        write_report(arguments.runs, arguments.output, by=by, **options)
    for note in notes:
        print(f"warning: {note.message}", file=sys.stderr)
    print(arguments.output)
    return 0
