"""``rlkit-sac resume``: continue a run with the recipe that started it.

Examples:
    rlkit-sac resume runs/sac/Pendulum-v1/<run>
    rlkit-sac resume runs/sac/Pendulum-v1/<run> --collector.total_frames 20000
    rlkit-sac resume runs/sac/Pendulum-v1/<run>/checkpoints/step_5000
"""

from __future__ import annotations

import argparse

from rlkit_sac.cli.run_arguments import add_options
from rlkit_sac.recipe_files import recipe_script, run_script

SUMMARY = "continue a run that was stopped, or extend a finished one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run; the options after it are those of the recipe."""
    parser.usage = "rlkit-sac resume RUN [options of the recipe]"
    parser.add_argument(
        "run", metavar="RUN", help="run directory, or one of its checkpoints/step_<frames>"
    )
    add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the recipe of the run with ``--resume``."""
    from rlkit_sac.runs.checkpoint import Checkpoint
    from rlkit_sac.runs.directory import RunDirectory

    run = RunDirectory(Checkpoint.find(arguments.run).run_path)
    script = recipe_script(run.info, arguments.run)
    run_script(script, ["--resume", arguments.run, *arguments.options])
    return 0
