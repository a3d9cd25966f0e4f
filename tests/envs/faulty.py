"""A module that registers environments which fail, for processes that import it by name."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.envs.classic_control import PendulumEnv


class Faulty(PendulumEnv):
    """Fails in a step or reset of one episode, counted from 1 and 0."""

    def __init__(self, how: str = "", step: int = 1) -> None:
        super().__init__()
        self.how, self.fault_step, self.resets, self.steps = how, step, 0, 0

    def reset(self, **options: Any) -> Any:
        self.resets += 1
        self.steps = 0
        if self.how == "reset" and self.resets == 2:
            raise OSError("lost\n  connection")
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        self.steps += 1
        if (self.resets, self.steps) == (2, self.fault_step):
            if self.how == "raise":
                raise ZeroDivisionError("division by zero")
            if self.how == "shape":
                return self.state, 0.0, False, False, {}
        return super().step(action)


gymnasium.register("Faulty-v0", entry_point="faulty:Faulty", max_episode_steps=4)
