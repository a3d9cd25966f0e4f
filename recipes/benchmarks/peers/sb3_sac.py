"""Stable-Baselines3."""

from __future__ import annotations

import torch
from peer import BATCH_SIZE, LEARNING_STARTS, NUM_CELLS, REPLAY_CAPACITY, Settings, run_peer
from stable_baselines3 import SAC


def train(settings: Settings) -> None:
    """Train without logs."""
    torch.set_num_threads(settings.num_threads)
    model = SAC(
        "MlpPolicy",
        settings.task,
        learning_starts=LEARNING_STARTS,
        buffer_size=REPLAY_CAPACITY,
        batch_size=BATCH_SIZE,
        policy_kwargs={"net_arch": list(NUM_CELLS)},
        seed=settings.seed,
        device="cpu",
    )
    model.learn(settings.total_frames, log_interval=None)


if __name__ == "__main__":
    run_peer(train, ["stable-baselines3", "torch", "gymnasium"])
