"""The analytic environments have the optima that they claim."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from tests.envs import analytic

GRID = np.linspace(-1.0, 1.0, 200_001)[1:-1]


def reward(env: gym.Env[Any, Any], action: Any) -> float:
    env.reset()
    return float(env.step(action)[1])


def test_the_soft_optimal_policy_of_the_discrete_bandit() -> None:
    env, alpha = analytic.DiscreteBandit(), 0.5
    policy = env.probabilities(alpha)
    value = alpha * np.log(sum(np.exp(reward(env, action) / alpha) for action in range(3)))
    advantages = [reward(env, action) - alpha * np.log(policy[action]) for action in range(3)]
    assert np.allclose(advantages, value)


def test_the_soft_value_of_the_continuous_bandit_is_zero() -> None:
    env = analytic.ContinuousBandit()
    weights = [np.exp(reward(env, [a]) / env.alpha) for a in GRID[::50]]
    assert np.sum(weights) * 50 * (GRID[1] - GRID[0]) == pytest.approx(1.0, abs=1e-6)


def test_the_soft_value_of_the_hybrid_bandit_is_zero() -> None:
    env = analytic.HybridBandit()
    total = 0.0
    for c in GRID[::200]:
        rewards = [reward(env, (d, [c])) for d in range(3)]
        value_given_c = env.alpha_discrete * np.log(
            np.sum(np.exp(np.array(rewards) / env.alpha_discrete))
        )
        total += np.exp(value_given_c / env.alpha_continuous) * 200 * (GRID[1] - GRID[0])
    assert total == pytest.approx(1.0, abs=1e-6)
