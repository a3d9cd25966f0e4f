"""Tiny environments whose optimal policies and values are known, registered as ``analytic/…``.

from tests.envs import analytic  # registers
env = make_env("analytic/HybridBandit-v0")
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete, Tuple
from numpy.typing import NDArray

Step = tuple[Any, float, bool, bool, dict[str, Any]]

_NOTHING = np.zeros(1, np.float32)
_NOTHING_SPACE = Box(-1.0, 1.0, (1,), np.float32)


class DiscreteBandit(gym.Env[Any, Any]):
    """One step, one reward per action; the soft-optimal policy is softmax(rewards / alpha)."""

    observation_space = _NOTHING_SPACE

    def __init__(self, rewards: tuple[float, ...] = (0.0, 0.5, 1.0)) -> None:
        self.rewards = np.array(rewards)
        self.action_space = Discrete(len(rewards))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return _NOTHING.copy(), {}

    def step(self, action: Any) -> Step:
        return _NOTHING.copy(), float(self.rewards[action]), True, False, {}

    def probabilities(self, alpha: float) -> NDArray[np.float64]:
        """Soft-optimal probabilities `[K]`."""
        return _softmax(self.rewards / alpha)


class ContinuousBandit(gym.Env[Any, Any]):
    """One step, reward alpha log p(a), p being the density of tanh(u), u ~ N(loc, scale²).

    With that temperature p is the soft-optimal policy, and the soft value is 0.
    """

    observation_space = _NOTHING_SPACE

    def __init__(self, loc: float = 0.4, scale: float = 0.3, alpha: float = 0.1) -> None:
        self.loc, self.scale, self.alpha = loc, scale, alpha
        self.action_space = Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return _NOTHING.copy(), {}

    def step(self, action: Any) -> Step:
        return _NOTHING.copy(), self.alpha * self.log_density(float(action[0])), True, False, {}

    def log_density(self, action: float) -> float:
        """Log density of the soft-optimal policy."""
        return _log_tanh_normal(action, self.loc, self.scale)


class HybridBandit(gym.Env[Any, Any]):
    """One step of a continuous action c and a discrete one d, soft-optimal policy p(c) P(d | c).

    The reward is alpha_continuous log p(c) + alpha_discrete log P(d | c), where p is the density of
    tanh(u), u ~ N(loc, scale²), and P(· | c) = softmax(logits + slopes c). With these temperatures
    they are the soft-optimal policy of an agent that draws c first, and the soft value is 0.
    """

    observation_space = _NOTHING_SPACE

    def __init__(
        self,
        loc: float = -0.3,
        scale: float = 0.3,
        logits: tuple[float, ...] = (0.0, 0.5, 1.0),
        slopes: tuple[float, ...] = (1.0, 0.0, -1.0),
        alpha_discrete: float = 0.2,
        alpha_continuous: float = 0.1,
    ) -> None:
        self.loc, self.scale = loc, scale
        self.logits, self.slopes = np.array(logits), np.array(slopes)
        self.alpha_discrete, self.alpha_continuous = alpha_discrete, alpha_continuous
        self.action_space = Tuple([Discrete(len(logits)), Box(-1.0, 1.0, (1,), np.float32)])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return _NOTHING.copy(), {}

    def step(self, action: Any) -> Step:
        discrete, continuous = action[0], float(action[1][0])
        reward = self.alpha_continuous * self.log_density(continuous)
        reward += self.alpha_discrete * float(np.log(self.probabilities(continuous)[discrete]))
        return _NOTHING.copy(), reward, True, False, {}

    def log_density(self, continuous: float) -> float:
        """Log density of the continuous part of the soft-optimal policy."""
        return _log_tanh_normal(continuous, self.loc, self.scale)

    def probabilities(self, continuous: float) -> NDArray[np.float64]:
        """Soft-optimal probabilities `[K]` of the discrete part, given the continuous one."""
        return _softmax(self.logits + self.slopes * continuous)


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


class TwoStateChain(gym.Env[Any, Any]):
    """States 0, 1, 0, … with reward 1; the end after two steps is a time limit or a terminal state.

    V(0) = V(1) = 1 / (1 - gamma) with the time limit; V(0) = 1 + gamma, V(1) = 1 without. Actions
    change nothing.
    """

    def __init__(self, terminates: bool) -> None:
        self.terminates = terminates
        self.observation_space = Box(0.0, 1.0, (2,), np.float32)
        self.action_space = Discrete(2)
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> Step:
        self.steps += 1
        ended = self.steps == 2
        return self._observe(), 1.0, ended and self.terminates, ended and not self.terminates, {}

    def values(self, gamma: float) -> tuple[float, float]:
        """Values of the states 0 and 1."""
        endless = 1.0 / (1.0 - gamma)
        return (1.0 + gamma, 1.0) if self.terminates else (endless, endless)

    def _observe(self) -> NDArray[np.float32]:
        return np.eye(2, dtype=np.float32)[self.steps % 2]


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


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def _log_tanh_normal(action: float, loc: float, scale: float) -> float:
    action = min(max(action, -1.0 + 1e-6), 1.0 - 1e-6)
    z = (np.arctanh(action) - loc) / scale
    log_normal = -0.5 * z * z - np.log(scale * np.sqrt(2 * np.pi))
    return float(log_normal - np.log1p(-action * action))


for _kind in (
    *(DiscreteBandit, ContinuousBandit, HybridBandit, MixedToy, TwoStateChain, ABCChain),
):
    gym.register(f"analytic/{_kind.__name__}-v0", _kind)
gym.register("analytic/IdentityEnv-v0", IdentityEnv, max_episode_steps=100)
