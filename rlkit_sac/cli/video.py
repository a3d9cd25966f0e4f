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
    """The run, and what is recorded."""
    add_run(parser)
    parser.add_argument(
        "--episodes", type=int, default=1, metavar="N", help="a file for each (default: 1)"
    )
    parser.add_argument(
        "--seed", type=int, help="of the episodes (default: as the run's evaluations)"
    )
    parser.add_argument("--format", choices=("mp4", "gif"), default="mp4", help="(default: mp4)")
    parser.add_argument("--output", metavar="FOLDER", help="(default: videos in the run directory)")


def run(arguments: argparse.Namespace) -> int:
    """Record, and print paths and returns."""
    check_run(arguments)
    from rlkit_sac.runs import record_run

    given = {name: getattr(arguments, name) for name in ("which", "seed", "episodes", "format")}
    videos = record_run(arguments.run, folder=arguments.output, **given)
    for file, value in videos.items():
        print(f"{file}  return {value:.2f}")
    return 0
