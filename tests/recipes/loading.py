"""Recipes as modules, although they are scripts."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

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


def config_files(name: str) -> list[Path]:
    return sorted((RECIPES / "configs" / name).glob("*.yaml"))
