"""``rlkit-sac sweep``: search for better options of a recipe.

Examples:
    rlkit-sac sweep sac --trials 40 --jobs 2
    rlkit-sac sweep sac --env.id Hopper-v5 --space my_space.yaml
    rlkit-sac sweep sac --storage postgresql://user@host/sweeps
    rlkit-sac train sac --config runs/sweeps/sac-Pendulum-v1/best.yaml

The same command goes on with a sweep that was interrupted, and joins one that
runs elsewhere.
"""

from __future__ import annotations

import argparse

from rlkit_sac.cli.recipe_files import add_recipe, find_recipe, run_script

SUMMARY = "search for better options of a recipe with Optuna"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The recipe; what comes after it is for the recipe, in every trial."""
    parser.usage = "rlkit-sac sweep RECIPE [--trials N] [options of the recipe]"
    add_recipe(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the recipe with ``--trials``, 40 if none are given."""
    trials = [] if "--trials" in " ".join(arguments.options) else ["--trials", "40"]
    run_script(find_recipe(arguments.recipe), [*trials, *arguments.options])
    return 0
