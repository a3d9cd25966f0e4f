"""Recipes as modules, although they are scripts."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from rlkit_sac.runs import read_config

RECIPES = Path(__file__).parents[2] / "recipes"


def load_recipe(name: str) -> ModuleType:
    if name not in sys.modules:
        file = RECIPES / f"{name}.py"
        spec = importlib.util.spec_from_file_location(name, file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        sys.path.insert(0, str(file.parent))  # as Python does for a script
        try:
            spec.loader.exec_module(module)
        finally:
            sys.path.remove(str(file.parent))
    return sys.modules[name]


def config_class(recipe: str) -> Any:
    """The class of a recipe's configuration."""
    return get_type_hints(load_recipe(recipe).main)["config"]


def run_recipe(recipe: str, *arguments: str) -> Path:
    """The directory of a run of these arguments, in this process."""
    return load_recipe(recipe).main(read_config(config_class(recipe), arguments))


def config_files(name: str) -> list[Path]:
    return sorted((RECIPES / "configs" / name).glob("*.yaml"))
