"""Ours: ``recipes/acer.py`` as it is, compiled from its first update on."""

from __future__ import annotations

import acer_settings as common
import own_recipe
from peer import Settings, run_peer


def train(settings: Settings) -> None:
    """Run the recipe."""
    options = {
        "config": "published",
        "compile": True,
        "env.num_envs": common.NUM_ENVS,
        "collector.t_max": common.T_MAX,
        "replay.capacity": common.REPLAY_CAPACITY,
        "replay.batch_size": common.NUM_ENVS,
        "network.num_cells": list(common.NUM_CELLS),
        "network.activation": "tanh",
        "loss.gamma": common.GAMMA,
        "loss.beta": common.BETA,
        "loss.reward_scale": common.REWARD_SCALE,
        "loss.truncation_threshold": common.TRUNCATION_THRESHOLD,
        "loss.trust_region_delta": common.TRUST_REGION_DELTA,
        "loss.trust_region_space": "log_probs",
        "update.lr": common.LEARNING_RATE,
        "update.rmsprop_alpha": common.RMSPROP_ALPHA,
        "update.rmsprop_eps": common.RMSPROP_EPS,
        "update.max_grad_norm": common.MAX_GRAD_NORM,
        "update.n_times_replay": common.N_TIMES_REPLAY,
        "update.poisson": False,
        "update.replay_start_size": common.REPLAY_START_SIZE,
    }
    own_recipe.run("acer", settings, options)


if __name__ == "__main__":
    run_peer(train, ["torch", "torchrl", "tensordict", "gymnasium"])
