"""``rlkit-sac resume``: continue a run with the recipe that began it.

Examples:
    rlkit-sac resume runs/sac/Pendulum-v1/<run>
    rlkit-sac resume runs/sac/Pendulum-v1/<run> --collector.total_frames 20000
    rlkit-sac resume runs/sac/Pendulum-v1/<run>/checkpoints/step_5000
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlkit_sac.cli.recipe_files import run_script, shipped_recipes
from rlkit_sac.errors import ConfigError

SUMMARY = "continue a run that was stopped, or extend a finished one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run; what comes after it is for the recipe."""
    parser.usage = "rlkit-sac resume RUN [options of the recipe]"
    parser.add_argument(
        "run", metavar="RUN", help="run directory, or one of its checkpoints/step_<frames>"
    )
    parser.add_argument("options", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Run the recipe of the run with ``--resume``."""
    from rlkit_sac.runs.checkpoints.resume import find_checkpoint
    from rlkit_sac.runs.tables.run_directory import RunDirectory

    path, _ = find_checkpoint(arguments.run)
    script = recipe_script(RunDirectory(path).info, arguments.run)
    run_script(script, ["--resume", arguments.run, *arguments.options])
    return 0


def recipe_script(info: Mapping[str, Any], run: str) -> Path:
    """The script that began a run, or the recipe of this installation where it is gone.

    Args:
        info: the run's ``run.json``.
        run: the run directory, for the error.

    Raises:
        ConfigError: for a script that is gone and did not come with the package, or something else
            than a script, such as a notebook.

    >>> recipe_script({"command": "python elsewhere/recipes/sac.py --seed 1"}, "a_run").name
    'sac.py'
    >>> recipe_script({"command": "python my_sac.py"}, "a_run")
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: a_run was begun by my_sac.py, which is not a recipe's ...
    """
    # Runs of 0.1 have the command alone, whose path may be relative.
    script = Path(info.get("script") or shlex.split(info["command"])[1])
    if script.suffix == ".py" and script.is_file() and b"run_recipe(" in script.read_bytes():
        return script
    if script.parent.name == "recipes" and script.stem in (recipes := shipped_recipes()):
        return recipes[script.stem]
    raise ConfigError(
        f"{run} was begun by {script}, which is not a recipe's script, or is gone: name the script "
        f"to resume it with, rlkit-sac train my_recipe.py --resume {run}"
    )
