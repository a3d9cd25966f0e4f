"""A module that registers an environment which returns something odd, for any process."""

from __future__ import annotations

import os
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Space, Tuple

SPACES: dict[str, Space[Any]] = {
    "box": Box(-1.0, 1.0, (3,)),
    "number": Box(-1.0, 1.0, ()),
    "image": Box(0, 255, (2, 2), np.uint8),
    "index": Discrete(3, start=1),
    "indices": MultiDiscrete([2, 3]),
    "parts": Dict(at=Box(-1.0, 1.0, (2, 3)), door=Discrete(2)),
    "counted": Tuple([Box(0, 9, (1,), np.int64), Discrete(100)]),
}
PARTS = ("observation", "reward", "terminated", "truncated", "info")


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Odd(gymnasium.Env[Any, Any]):
    """Does as it should in episodes of four steps, but for one value in its second episode.

    Args:
        odd: one of PARTS, of the third step; "reset" for the observation of the reset, "step" and
            "returned" for all that the third step and the reset return; or "close".
        value: an expression of Python.
        space: of SPACES.
    """

    action_space = Box(-1.0, 1.0, (1,))

    def __init__(self, odd: str = "", value: str = "", space: str = "box") -> None:
        self.observation_space = SPACES[space]
        self.odd, self.value = odd, value
        self.resets = self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.resets, self.steps = self.resets + 1, 0
        result = (self.observation_space.sample(), {})
        if self.resets == 2 and self.odd == "returned":
            return self.evaluate(result)
        if self.resets == 2 and self.odd == "reset":
            return self.evaluate(result), {}
        return result

    def step(self, action: Any) -> Any:
        self.steps += 1
        result = (self.observation_space.sample(), 1.0, self.steps == 4, False, {})
        if (self.resets, self.steps) == (2, 3):
            if self.odd == "step":
                return self.evaluate(result)
            return tuple(
                self.evaluate(result) if name == self.odd else value
                for name, value in zip(PARTS, result, strict=True)
            )
        return result

    def close(self) -> None:
        if self.odd == "close":
            self.evaluate(None)

    def evaluate(self, result: Any) -> Any:
        return eval(self.value, globals() | {"self": self, "result": result})


def cyclic() -> dict[str, Any]:
    info: dict[str, Any] = {}
    info["info"] = info
    return info


def throw(error: BaseException) -> None:
    raise error


def change_folder() -> float:
    os.chdir("/")
    return 1.0


gymnasium.register("Odd-v0", entry_point="odd:Odd")
