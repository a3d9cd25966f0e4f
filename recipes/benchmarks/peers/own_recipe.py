"""Runs one of our recipes as it is, to be timed."""

from __future__ import annotations

import warnings
from typing import Any

from peer import Settings

from rlkit_sac import train


def run(name: str, settings: Settings, options: dict[str, Any]) -> None:
    """Run a recipe, with its run directory in the working directory.

    Args:
        name: of the recipe, ``sac`` for ``recipes/sac.py``.
        settings: of the command line.
        options: those that all systems share.
    """
    # An update that cannot be compiled must not be timed in its place.
    warnings.filterwarnings("error", message="(?s).*run uncompiled")
    options = options | {
        "collector.total_frames": settings.total_frames,
        "num_threads": settings.num_threads,
        "device": settings.device,
        "logging.progress": False,
        # Every run is evaluated and saved at its end: once is the least.
        "evaluation.interval": settings.total_frames,
        "evaluation.episodes": 1,
        "checkpoint.interval": settings.total_frames,
    }
    train(name, env=settings.task, seed=settings.seed, **options)
