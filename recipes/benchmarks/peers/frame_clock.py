"""Times a window of a task's frames, whoever steps it."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import WrapperSpec

#: Seconds of the window, once an environment has reached its end.
measured: list[float] = []


class FrameClock(gym.Wrapper):
    """Notes the time after the first frames of an environment, and some frames later.

    Between the two lie as many steps, and whatever a system does for each of them: act, store,
    sample, update.

    Args:
        env: to be counted.
        warmup: frames before the window; 0 begins it when the environment is made.
        frames: of the window.
    """

    def __init__(self, env: gym.Env[Any, Any], warmup: int, frames: int) -> None:
        super().__init__(env)
        self._first, self._last = warmup, warmup + frames
        self._count = 0
        self._start = time.perf_counter()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and look at the clock at the window's ends."""
        result = self.env.step(action)
        self._count += 1
        if self._count == self._first:
            self._start = time.perf_counter()
        elif self._count == self._last and not measured:
            measured.append(time.perf_counter() - self._start)
        return result


def watch(task: str, *, warmup: int, frames: int) -> None:
    """Have ``gymnasium.make`` put a clock around every environment of a task in this process.

    Args:
        task: Gymnasium id.
        warmup: frames before the window.
        frames: of the window.
    """
    spec = gym.spec(task)
    arguments = {"warmup": warmup, "frames": frames}
    clock = WrapperSpec("FrameClock", "frame_clock:FrameClock", arguments)
    wrappers = (*spec.additional_wrappers, clock)
    gym.registry[spec.id] = dataclasses.replace(spec, additional_wrappers=wrappers)
