"""Environments of workers that fail, die or wait; Ray's processes import them by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from gymnasium.envs.classic_control import PendulumEnv
from gymnasium.envs.registration import EnvSpec
from torchrl.envs import EnvBase

from rlkit_sac.envs import make_env


class Faulty(PendulumEnv):
    """Fails in the fifth step of its second episode.

    Args:
        how: "raise", "nan", "kill", "hang", or "" for never.
        once: the file that is made then; where it is there already, nothing happens.
    """

    def __init__(self, how: str = "", once: str | None = None) -> None:
        super().__init__()
        self.how, self.once, self.resets, self.steps = how, once, 0, 0

    def reset(self, **options: Any) -> Any:
        self.resets += 1
        self.steps = 0
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        self.steps += 1
        observation, reward, *others = super().step(action)
        if (self.resets, self.steps) == (2, 5):
            if self.once is not None:
                if Path(self.once).exists():
                    return observation, reward, *others
                Path(self.once).touch()
            if self.how == "raise":
                raise ZeroDivisionError("division by zero")
            if self.how == "nan":
                reward = float("nan")
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "hang":
                time.sleep(600)
        return observation, reward, *others


def create(
    first_index: int, *, faulty: int | None = None, num_envs: int = 1, limit: int = 7, **how: Any
) -> EnvBase:
    """Environments of which the one with the index ``faulty`` fails, or all with None."""
    fails = faulty is None or faulty in range(first_index, first_index + num_envs)
    spec = EnvSpec("Faulty-v0", entry_point=Faulty, max_episode_steps=limit)
    return make_env(
        spec, num_envs=num_envs, first_index=first_index, seed=1, kwargs=how if fails else {}
    )
