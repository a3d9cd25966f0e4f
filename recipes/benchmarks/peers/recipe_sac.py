"""Ours: ``recipes/sac.py`` with the options that the others have."""

from __future__ import annotations

import own_recipe
from peer import BATCH_SIZE, LEARNING_STARTS, NUM_CELLS, REPLAY_CAPACITY, Settings, run_peer


def train(settings: Settings) -> None:
    """Run the recipe."""
    options = {
        "config": "published",
        "collector.init_random_frames": LEARNING_STARTS,
        "collector.learning_starts": LEARNING_STARTS,
        "replay.capacity": REPLAY_CAPACITY,
        "replay.batch_size": BATCH_SIZE,
        "network.num_cells": list(NUM_CELLS),
    }
    own_recipe.run("sac", settings, options)


if __name__ == "__main__":
    run_peer(train, ["torch", "torchrl", "tensordict", "gymnasium"])
