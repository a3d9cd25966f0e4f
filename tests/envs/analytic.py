"""Tiny environments whose optimal returns are known, registered as ``analytic/…``.

from tests.envs import analytic  # registers
env = make_env("analytic/MixedToy-v0")
"""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete, Tuple
from numpy.typing import NDArray

Step = tuple[Any, float, bool, bool, dict[str, Any]]


class MixedToy(gym.Env[Any, Any]):
    """Reward 1 where the discrete action tells whether the continuous one is above a half.

    The observation is noise. Episodes terminate after 13 steps, so the best return is 13.
    """

    num_steps = 13

    def __init__(self) -> None:
        self.observation_space = Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = Tuple([Discrete(2), Box(0.0, 1.0, (1,), np.float32)])
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> Step:
        self.steps += 1
        reward = float(action[0] == (action[1][0] > 0.5))
        return self._observe(), reward, self.steps == self.num_steps, False, {}

    def _observe(self) -> NDArray[np.float32]:
        return self.np_random.standard_normal(1).astype(np.float32)


class ABCChain(gym.Env[Any, Any]):
    """Actions 0, 1, 2 in this order earn 1 at the end; a wrong one ends the episode without.

    The optimal values are gamma², gamma and 1. Other chains have other numbers of letters; in a
    continuous one the largest entry of a vector is the letter.
    """

    def __init__(self, size: int = 3, continuous: bool = False) -> None:
        self.size, self.continuous = size, continuous
        self.observation_space = Box(0.0, 1.0, (size,), np.float32)
        self.action_space = Box(-1.0, 1.0, (size,), np.float32) if continuous else Discrete(size)
        self.letter = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.letter = 0
        return self._observe(), {}

    def step(self, action: Any) -> Step:
        right = (np.argmax(action) if self.continuous else action) == self.letter
        done = bool(right and self.letter == self.size - 1)
        if right and not done:
            self.letter += 1
        return self._observe(), float(done), done or not right, False, {}

    def _observe(self) -> NDArray[np.float32]:
        return np.eye(self.size, dtype=np.float32)[self.letter]


class IdentityEnv(gym.Env[Any, Any]):
    """Reward 1 for repeating the observation, one of n at random; truncated after 100 steps."""

    def __init__(self, n: int = 4) -> None:
        self.observation_space, self.action_space = Discrete(n), Discrete(n)
        self.state = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._draw(), {}

    def step(self, action: Any) -> Step:
        reward = float(action == self.state)
        return self._draw(), reward, False, False, {}

    def _draw(self) -> int:
        self.state = int(self.np_random.integers(self.observation_space.n))
        return self.state


for _kind in (MixedToy, ABCChain):
    gym.register(f"analytic/{_kind.__name__}-v0", _kind)
gym.register("analytic/IdentityEnv-v0", IdentityEnv, max_episode_steps=100)
