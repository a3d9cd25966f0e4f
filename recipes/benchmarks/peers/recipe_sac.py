"""Ours: ``recipes/sac.py`` as it is."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path

from peer import BATCH_SIZE, LEARNING_STARTS, NUM_CELLS, REPLAY_CAPACITY, Settings, run_peer

from rlkit_sac.training import parse_config

RECIPE = Path(__file__).parents[2] / "sac.py"


def train(settings: Settings) -> None:
    """Run the recipe, with its run directory in the working directory."""
    # An update that cannot be compiled must not be timed in its place.
    warnings.filterwarnings("error", message="(?s).*run uncompiled")
    spec = importlib.util.spec_from_file_location("sac", RECIPE)
    assert spec is not None
    assert spec.loader is not None
    sac = importlib.util.module_from_spec(spec)
    sys.modules["sac"] = sac
    spec.loader.exec_module(sac)
    options = {
        "env.id": settings.task,
        "collector.total_frames": settings.total_frames,
        "collector.init_random_frames": LEARNING_STARTS,
        "collector.learning_starts": LEARNING_STARTS,
        "replay.capacity": REPLAY_CAPACITY,
        "replay.batch_size": BATCH_SIZE,
        "network.num_cells": list(NUM_CELLS),
        "num_threads": settings.num_threads,
        "seed": settings.seed,
        "logging.progress": "false",
        # Every run is evaluated and saved at its end: once is the least.
        "evaluation.interval": settings.total_frames,
        "evaluation.episodes": 1,
        "checkpoint.interval": settings.total_frames,
    }
    sac.main(parse_config(sac.SACConfig, [f"--{name}={value}" for name, value in options.items()]))


if __name__ == "__main__":
    run_peer(train, ["torch", "torchrl", "tensordict", "gymnasium"])
