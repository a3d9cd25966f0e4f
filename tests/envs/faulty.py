"""An environment that fails, dies or waits; processes import it by name."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.envs.classic_control import PendulumEnv


class Faulty(PendulumEnv):
    """Fails in a step of its second episode, or in the reset before.

    Args:
        how: "raise", "reset", "shape", "nan", "kill", "hang", or "" for never.
        step: of the episode, counted from 1.
        once: the file that is made then; where it is there already, nothing happens.
    """

    def __init__(self, how: str = "", step: int = 5, once: str | None = None) -> None:
        super().__init__()
        self.how, self.fault_step, self.once, self.resets, self.steps = how, step, once, 0, 0

    def reset(self, **options: Any) -> Any:
        self.resets += 1
        self.steps = 0
        if self.how == "reset" and self.resets == 2:
            raise OSError("lost\n  connection")
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        self.steps += 1
        observation, reward, *others = super().step(action)
        if (self.resets, self.steps) == (2, self.fault_step):
            if self.once is not None:
                if Path(self.once).exists():
                    return observation, reward, *others
                Path(self.once).touch()
            if self.how == "raise":
                raise ZeroDivisionError("division by zero")
            if self.how == "shape":
                observation = self.state
            if self.how == "nan":
                reward = float("nan")
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "hang":
                time.sleep(600)
        return observation, reward, *others


gymnasium.register("Faulty-v0", Faulty, max_episode_steps=4)
