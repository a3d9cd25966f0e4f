"""``rlkit-sac train``: run a recipe.

Examples:
    rlkit-sac train sac
    rlkit-sac train sac --help
    rlkit-sac train sac --config halfcheetah --seed 1
    rlkit-sac train discrete_sac --env.id Acrobot-v1
    rlkit-sac train sac --seeds 0,1,2 --jobs 2
    rlkit-sac train my_sac.py      a script of your own, see `rlkit-sac recipes`
"""

from __future__ import annotations

import argparse

from rlkit_sac.cli.run_arguments import add_options
from rlkit_sac.recipe_files import find_recipe, run_script

SUMMARY = "train an agent with a recipe"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the recipe; the options after it are its own."""
    parser.usage = "rlkit-sac train RECIPE [options of the recipe]"
    text = "name of a recipe, see `rlkit-sac recipes`, or path of a script (.py)"
    parser.add_argument("recipe", metavar="RECIPE", help=text)
    add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the recipe."""
    run_script(find_recipe(arguments.recipe), arguments.options)
    return 0
