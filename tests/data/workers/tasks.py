"""Environments of workers; Ray's processes import the function by name."""

from typing import Any

from gymnasium.envs.registration import EnvSpec
from torchrl.envs import EnvBase

from rlkit_sac.envs import make_env
from tests.envs.faulty import Faulty


def create(
    first_index: int, *, faulty: int | None = None, num_envs: int = 1, limit: int = 7, **how: Any
) -> EnvBase:
    """Environments of which the one with the index ``faulty`` fails, or all with None."""
    fails = faulty is None or faulty in range(first_index, first_index + num_envs)
    spec = EnvSpec("Faulty-v0", entry_point=Faulty, max_episode_steps=limit)
    return make_env(
        spec, num_envs=num_envs, first_index=first_index, seed=1, kwargs=how if fails else {}
    )
