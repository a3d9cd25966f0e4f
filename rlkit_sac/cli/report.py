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
from pathlib import Path

from rlkit_sac.errors import ConfigError

SUMMARY = "write one HTML page about runs: curves, tables, metrics, options"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The runs, the page, and how runs become groups."""
    parser.add_argument(
        "runs",
        metavar="RUNS",
        nargs="+",
        help="run directories, or directories above runs, "
        "also with logs of Stable-Baselines3, CleanRL and TorchRL",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="(default: report.html in RUNS, if that is one)"
    )
    parser.add_argument(
        "--by",
        metavar="NAMES",
        help="what makes groups besides the task: recipe, configuration, seed, status, run, or "
        "options such as update.lr_actor, separated by commas (default: recipe,configuration)",
    )
    parser.add_argument(
        "--statistic",
        choices=("mean", "iqm"),
        default="mean",
        help="mean or interquartile mean over the runs of a group (default: mean)",
    )
    parser.add_argument(
        "--confidence",
        type=float,
        default=0.95,
        metavar="LEVEL",
        help="of the intervals (default: 0.95)",
    )
    parser.add_argument("--title", help="of the page (default: the tasks)")
    parser.add_argument("--task", help="of logs that do not tell it")


def run(arguments: argparse.Namespace) -> int:
    """Write the page; print its path, and what is to be said of the runs."""
    if arguments.output is None and len(arguments.runs) > 1:
        raise ConfigError("several RUNS have no common place for the page: name it, -o report.html")
    from rlkit_sac.analysis import write_report

    path = Path(arguments.output or Path(arguments.runs[0], "report.html"))
    by = arguments.by and [name.strip() for name in arguments.by.split(",") if name.strip()]
    names = ("statistic", "confidence", "title", "task")
    given = {name: getattr(arguments, name) for name in names}
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", UserWarning)
        write_report(arguments.runs, path, by=by, **given)
    for note in notes:
        print(f"warning: {note.message}", file=sys.stderr)
    print(path)
    return 0
