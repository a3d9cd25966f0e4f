"""A task of Gymnasium that shows its number and its time in observations of any structure."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from numpy.typing import NDArray

_ONE = Box(-99, 99, (1,), np.float32)
SPACES = {
    "Box": Box(-99, 99, (3,), np.float32),
    "Discrete": Discrete(60),
    "Dict": Dict({"inner": Dict({"number": _ONE, "time": Discrete(9)}), "start": _ONE}),
    "Tuple": Tuple([_ONE, _ONE]),
    "Dict of boxes": Dict({"start": _ONE, "time": _ONE}),
    "Tuple in Dict": Dict({"number": _ONE, "others": Tuple([Discrete(9), Discrete(9)])}),
}


class Counter(gym.Env[Any, Any]):
    """Begins at a number from 0 to 3 at random, or `start`; the reward shows the action.

    Environment 0 is truncated after four steps, 1 terminates after six.
    """

    def __init__(self, kind: str = "Box", number: int = 0, masked: bool = False) -> None:
        self.kind, self.number, self.masked = kind, number, masked
        self.observation_space, self.action_space = SPACES[kind], Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        given = (options or {}).get("start")
        self.start = int(self.np_random.integers(4)) if given is None else given
        self.time = 0
        return self._seen(), self._info()

    def step(self, action: Any) -> Any:
        self.time += 1
        reward = 0.125 * self.time + int(action) + 10 * self.number
        ended = self.time == 4 + 2 * self.number
        return self._seen(), reward, ended and self.number == 1, ended and not self.number, {}

    def _seen(self) -> Any:
        def one(value: float) -> NDArray[np.float32]:
            return np.array([value + 1], np.float32)

        return {
            "Box": np.array([self.number, self.time, self.start], np.float32),
            "Discrete": 20 * self.number + 4 * self.time // 2 + self.start,
            "Dict": {
                "inner": {"number": one(self.number), "time": self.time},
                "start": one(self.start),
            },
            "Dict of boxes": {"start": one(self.start), "time": one(self.time)},
            "Tuple": (one(self.number), one(10 * self.start + self.time)),
            "Tuple in Dict": {"number": one(self.number), "others": (self.time, self.start)},
        }[self.kind]

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.array([1, 0, 1], np.int8)} if self.masked else {}


for _kind in SPACES:
    gym.register(f"Counter-{_kind.replace(' ', '-')}-v0", Counter, kwargs={"kind": _kind})
