"""``rlkit-sac video``: record the policy of a run.

Examples:
    rlkit-sac video runs/sac/Pendulum-v1/<run>
    rlkit-sac video runs/sac/Pendulum-v1/<run> --which best --format gif
"""

from __future__ import annotations

import argparse

from rlkit_sac.cli.run_arguments import add_run, check_run

SUMMARY = "record videos of the policy of a run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run, and the options of its videos."""
    add_run(parser)
    parser.add_argument(
        "--episodes", type=int, default=1, metavar="N", help="number of videos (default: 1)"
    )
    parser.add_argument(
        "--seed", type=int, help="seed of the episodes (default: as in evaluations of the run)"
    )
    parser.add_argument("--format", choices=("mp4", "gif"), default="mp4", help="mp4 by default")
    parser.add_argument(
        "--output", metavar="FOLDER", help="folder (default: videos in RUN; here for zoo:)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Record the videos, and print their paths and returns."""
    check_run(arguments)
    from rlkit_sac.runs import record_run

    options = {name: getattr(arguments, name) for name in ("which", "seed", "episodes", "format")}
    videos = record_run(arguments.run, folder=arguments.output, **options)
    for file, value in videos.items():
        print(f"{file}  return {value:.2f}")
    return 0
