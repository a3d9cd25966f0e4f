"""SBX: Stable-Baselines3's interface, compiled by JAX."""

from __future__ import annotations

from peer import BATCH_SIZE, LEARNING_STARTS, NUM_CELLS, REPLAY_CAPACITY, Settings, run_peer
from sbx import SAC


def train(settings: Settings) -> None:
    """Train without logs; JAX takes its threads from the cores that the process may use."""
    model = SAC(
        "MlpPolicy",
        settings.task,
        learning_starts=LEARNING_STARTS,
        buffer_size=REPLAY_CAPACITY,
        batch_size=BATCH_SIZE,
        policy_kwargs={"net_arch": list(NUM_CELLS)},
        seed=settings.seed,
    )
    model.learn(settings.total_frames, log_interval=None)


if __name__ == "__main__":
    run_peer(train, ["sbx-rl", "jax", "stable-baselines3", "gymnasium"])
