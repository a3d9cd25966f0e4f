"""A module that registers an environment which returns something odd, for any process."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, Space

SPACES: dict[str, Space[Any]] = {
    "box": Box(-1.0, 1.0, (3,)),
    "image": Box(0, 255, (2, 2), np.uint8),
    "index": Discrete(3, start=1),
}
PARTS = ("observation", "reward", "terminated", "truncated", "info")


class Odd(gymnasium.Env[Any, Any]):
    """Does as it should in episodes of four steps, but for one value in its second episode.

    Args:
        odd: one of PARTS, of the third step; "reset" for the observation of the reset, "step" and
            "returned" for all that the third step and the reset return.
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

    def evaluate(self, result: Any) -> Any:
        return eval(self.value, globals() | {"self": self, "result": result})


gymnasium.register("Odd-v0", entry_point="odd:Odd")
