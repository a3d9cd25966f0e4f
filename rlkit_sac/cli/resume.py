"""``rlkit-sac resume``: continue a run with the recipe that began it.

Examples:
    rlkit-sac resume runs/sac/Pendulum-v1/<run>
    rlkit-sac resume runs/sac/Pendulum-v1/<run> --collector.total_frames 20000
    rlkit-sac resume runs/sac/Pendulum-v1/<run>/checkpoints/step_5000
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlkit_sac.cli.recipe_files import add_options, run_script, shipped_recipes
from rlkit_sac.errors import ConfigError

SUMMARY = "continue a run that was stopped, or extend a finished one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run; what comes after it is for the recipe."""
    parser.usage = "rlkit-sac resume RUN [options of the recipe]"
    parser.add_argument(
        "run", metavar="RUN", help="run directory, or one of its checkpoints/step_<frames>"
    )
    add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the recipe of the run with ``--resume``."""
    from rlkit_sac.runs.checkpoint import Checkpoint
    from rlkit_sac.runs.directory import RunDirectory

    if arguments.options and os.path.isdir(arguments.options[0]):  # a pattern of the shell
        raise ConfigError(f"resume takes one run, got {arguments.run} {arguments.options[0]}")
    run = RunDirectory(Checkpoint.find(arguments.run).run_path)
    script = recipe_script(run.info, arguments.run)
    run_script(script, ["--resume", arguments.run, *arguments.options])
    return 0


def recipe_script(info: Mapping[str, Any], run: str) -> Path:
    """The recipe of the package that began a run.

    The files of a run do not choose what code is run: a script of someone's own has to be named.

    Args:
        info: the run's ``run.json``.
        run: the run directory, for the error.

    Raises:
        ConfigError: for another script, with the command that resumes the run.

    >>> recipe_script({"script": "elsewhere/recipes/sac.py"}, "a_run").name
    'sac.py'
    >>> recipe_script({"script": "my_sac.py"}, "a_run")
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: a_run was begun by my_sac.py, no recipe of this installation; ...
    """
    script = Path(info["script"])
    recipe = shipped_recipes().get(script.stem)
    gone = script.parent.name == "recipes" and not script.exists()  # with another installation
    if recipe is not None and (gone or (script.exists() and script.samefile(recipe))):
        return recipe
    raise ConfigError(
        f"{run} was begun by {script}, no recipe of this installation; to run that script: "
        f"{shlex.join(['rlkit-sac', 'train', str(script), '--resume', run])}"
    )
