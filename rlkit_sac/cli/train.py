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
import sys
import textwrap

from rlkit_sac.cli.recipe_files import find_recipe, run_script, shipped_recipes, summary

SUMMARY = "train an agent with a recipe"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The recipe; what comes after it is for the recipe."""
    parser.usage = "rlkit-sac train RECIPE [options of the recipe]"
    parser.add_argument(
        "recipe", metavar="RECIPE", nargs="?", help="name of a recipe, or path of a script (.py)"
    )
    parser.add_argument("options", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Run the recipe; without a name, list the recipes."""
    if arguments.recipe is None:
        print("error: name a recipe:", file=sys.stderr)
        for name, script in shipped_recipes().items():
            text = f"  {name:<14}{summary(script)}"
            print(textwrap.fill(text, 80, subsequent_indent=" " * 16), file=sys.stderr)
        return 2
    run_script(find_recipe(arguments.recipe), arguments.options)
    return 0
