"""Runs one of our recipes as it is, to be timed."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path
from typing import Any

from peer import Settings

from rlkit_sac.runs import read_config

RECIPES = Path(__file__).parents[2]


def run(name: str, config_class: str, settings: Settings, options: dict[str, Any]) -> None:
    """Run a recipe, with its run directory in the working directory.

    Args:
        name: of the recipe, ``sac`` for ``recipes/sac.py``.
        config_class: the class of its configuration.
        settings: of the command line.
        options: those that all systems share.
    """
    # An update that cannot be compiled must not be timed in its place.
    warnings.filterwarnings("error", message="(?s).*run uncompiled")
    spec = importlib.util.spec_from_file_location(name, RECIPES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    recipe = importlib.util.module_from_spec(spec)
    sys.modules[name] = recipe
    spec.loader.exec_module(recipe)
    options = options | {
        "env.id": settings.task,
        "collector.total_frames": settings.total_frames,
        "num_threads": settings.num_threads,
        "seed": settings.seed,
        "logging.progress": "false",
        # Every run is evaluated and saved at its end: once is the least.
        "evaluation.interval": settings.total_frames,
        "evaluation.episodes": 1,
        "checkpoint.interval": settings.total_frames,
    }
    arguments = [f"--{option}={value}" for option, value in options.items()]
    recipe.main(read_config(getattr(recipe, config_class), arguments))
