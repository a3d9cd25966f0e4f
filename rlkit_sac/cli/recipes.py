"""``rlkit-sac recipes``: list the recipes, and copy one to be changed.

Examples:
    rlkit-sac recipes                         list all
    rlkit-sac recipes copy sac                to ./sac.py and ./spaces/sac.yaml
    rlkit-sac recipes copy sac my_sac.py      under another name
    rlkit-sac recipes copy sac experiments    into a folder
    rlkit-sac recipes copy sac --config ant   with ./configs/sac/ant.yaml
    rlkit-sac recipes copy sweep              to ./sweep.py and ./spaces/
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import yaml

from rlkit_sac.errors import ConfigError, prefix_errors
from rlkit_sac.recipe_files import find_recipe, recipe_summary, shipped_recipes

SUMMARY = "list the recipes and their configurations, or copy one to change it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``copy NAME [TARGET]``; without it, the recipes are listed."""
    actions = parser.add_subparsers(metavar="copy", dest="action")
    copy = actions.add_parser(
        "copy",
        help="copy a recipe and the files it needs; nothing is overwritten",
        description="Copy a recipe, its search space and configurations, to change them.",
    )
    copy.add_argument("name", metavar="RECIPE", help="name of the recipe")
    copy.add_argument(
        "target",
        metavar="TARGET",
        nargs="?",
        default=".",
        help="folder, or name of the new script (.py) (default: the current folder)",
    )
    copy.add_argument("--config", action="append", default=[], help="configuration to copy too")


def run(arguments: argparse.Namespace) -> int:
    """List the recipes, or copy one."""
    if arguments.action is None:
        _print_list()
    else:
        _copy(find_recipe(arguments.name), Path(arguments.target), arguments.config)
    return 0


def _print_list() -> None:
    recipes = shipped_recipes()
    returns = _measured_returns(recipes["sac"].parent)
    row = "{:<32}{:<27}{:>7}{:>10}{:>4}".format
    print(row("configuration", "task", "return", "frames", "n"))
    for name, script in recipes.items():
        print(f"\n{textwrap.fill(f'{name}: {recipe_summary(script)}', 80)}")
        configs = (script.parent / "configs" / name).glob("*.yaml")
        for config in sorted(configs, key=lambda file: (file.stem != "default", file.stem)):
            options = yaml.safe_load(config.read_text(encoding="utf-8")) or {}
            task = options.get("env", {}).get("id", "any")
            for cells in returns.get((name, config.stem), [(task, *"---")]):
                print(row(f"  {config.stem}", *cells))
    print("\nReturns are means over n runs of the last evaluation of all; -: not measured.")
    print("Train with one: rlkit-sac train RECIPE --config CONFIGURATION")


def _measured_returns(recipes: Path) -> dict[tuple[str, str], list[tuple[str, str, str, int]]]:
    """Return task, return, frames and number of runs, for each measured recipe and configuration.

    The evaluations are the data of the documentation; the wheel has them beside the recipes.
    """
    files = recipes / "evaluations.csv", recipes.parent / "docs" / "data" / "evaluations.csv"
    curves: dict[tuple[str, str, str], dict[int, list[float]]] = {}
    with next(file for file in files if file.exists()).open(encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            curve = curves.setdefault((row["recipe"], row["configuration"], row["task"]), {})
            curve.setdefault(int(row["frames"]), []).append(float(row["return_mean"]))
    cells: dict[tuple[str, str], list[tuple[str, str, str, int]]] = {}
    for (recipe, name, task), curve in curves.items():
        last, returns = max(curve.items(), key=lambda point: (len(point[1]), point[0]))
        text = f"{mean(returns):,.{0 if abs(mean(returns)) >= 100 else 2}f}"
        cells.setdefault((recipe, name), []).append((task, text, f"{last:,}", len(returns)))
    return cells


def _copy(recipe: Path, target: Path, configs: list[str]) -> None:
    script = target if target.suffix == ".py" else target / recipe.name
    files = dict(_files_to_copy(recipe, script, configs))
    if existing := [str(file) for file in files.values() if os.path.exists(file)]:
        raise ConfigError(f"{existing[0]} exists already: move it, or name another TARGET")
    with prefix_errors(f"cannot copy to {target}"):
        for source, file in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, file)
    print("copied", *files.values())
    print(f"change it, and train: rlkit-sac train {script}")


def _files_to_copy(recipe: Path, script: Path, configs: list[str]) -> Iterator[tuple[Path, Path]]:
    """Yield each file that a recipe needs, with the path of its copy."""
    yield recipe, script
    defaults = Path("configs", recipe.stem, "default.yaml")
    remaining = ["default"] if (recipe.parent / defaults).is_file() else []
    spaces = script.parent / "spaces"
    for space in (recipe.parent / "spaces").glob("*.yaml"):
        if space.stem == recipe.stem:
            yield space, spaces / f"{script.stem}.yaml"
        elif recipe.stem == "sweep" and not (spaces / space.name).exists():
            yield space, spaces / space.name
    remaining += configs
    while remaining:
        name = remaining.pop()
        config = recipe.parent / "configs" / recipe.stem / f"{name}.yaml"
        if not config.is_file():
            raise ConfigError(f"{recipe.stem} has no configuration {name!r}: see rlkit-sac recipes")
        yield config, script.parent / "configs" / script.stem / config.name
        text = config.read_text(encoding="utf-8")
        options = yaml.safe_load(text) or {}
        remaining += filter(None, [options.get("config")])  # the file that this one builds upon
        for prior in (recipe.parent / "priors").glob("*.py"):
            if f"priors.{prior.stem}:" in text:
                yield prior, script.parent / "priors" / prior.name
