"""Times a window of a task's frames, whoever steps them."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import WrapperSpec

#: Seconds and CPU seconds of the window, once its end is reached.
measured: list[tuple[float, float]] = []


class FrameClock(gym.Wrapper):
    """Notes the time after the first frames of all environments together, and some frames later.

    Between the two lie as many steps, and whatever a system does for each of them: act, store,
    sample, update.

    Args:
        env: to be counted.
        warmup: frames before the window; 0 begins it when the first environment is made.
        frames: of the window.
    """

    _count = 0
    _start: tuple[float, float] | None = None

    def __init__(self, env: gym.Env[Any, Any], warmup: int, frames: int) -> None:
        super().__init__(env)
        self._first, self._last = warmup, warmup + frames
        if FrameClock._start is None:
            FrameClock._start = _now()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and look at the clock at the window's ends."""
        result = self.env.step(action)
        FrameClock._count += 1
        if FrameClock._count == self._first:
            FrameClock._start = _now()
        elif FrameClock._count == self._last:
            assert FrameClock._start is not None
            passed, used = _now()
            measured.append((passed - FrameClock._start[0], used - FrameClock._start[1]))
        return result


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


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
