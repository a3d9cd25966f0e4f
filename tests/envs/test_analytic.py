"""The analytic environments have the optima that they claim."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from rlkit_sac.envs import make_env
from tests.envs import analytic

GRID = np.linspace(-1.0, 1.0, 200_001)[1:-1]


@pytest.mark.parametrize("spec", [s for s in gym.registry.values() if s.namespace == "analytic"])
@pytest.mark.filterwarnings("ignore:.*A Box observation space m.* value is:UserWarning")
def test_they_are_environments(spec: gym.envs.registration.EnvSpec) -> None:
    kwargs = {"terminates": True} if spec.name == "TwoStateChain" else {}
    check_env(gym.make(spec, **kwargs).unwrapped)
    make_env(spec.id, kwargs=kwargs).rollout(5)


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


@pytest.mark.parametrize("terminates", [False, True])
def test_the_chain_pays_one_and_ends_as_it_is_told(terminates: bool) -> None:
    env = make_env("analytic/TwoStateChain-v0", kwargs={"terminates": terminates})
    steps = env.rollout(4, break_when_any_done=False)["next"]
    assert steps["reward"].eq(1).all()
    assert steps["terminated"].flatten().tolist() == [False, terminates] * 2
    assert steps["truncated"].flatten().tolist() == [False, not terminates] * 2
    assert steps["observation"].tolist() == [[0, 1], [1, 0]] * 2
    values = analytic.TwoStateChain(terminates).values(gamma=0.5)
    assert values == ((1.5, 1.0) if terminates else (2.0, 2.0))


def test_only_the_letters_in_order_pay() -> None:
    env = analytic.ABCChain()
    env.reset()
    assert [env.step(action)[1:3] for action in range(3)] == [
        (0.0, False),
        (0.0, False),
        (1.0, True),
    ]
    env.reset()
    assert env.step(1)[1:3] == (0.0, True)


def test_the_right_answers_of_the_toys_pay() -> None:
    toy = analytic.MixedToy()
    toy.reset(seed=0)
    ends = [toy.step((int(c > 0.5), [c]))[1:3] for c in np.linspace(0, 1, 13)]
    assert ends == [(1.0, False)] * 12 + [(1.0, True)]
    assert reward(toy, (1, [0.2])) == 0.0
    identity = analytic.IdentityEnv()
    state, _ = identity.reset(seed=0)
    for _ in range(20):
        state, paid, *_ = identity.step(state)
        assert paid == 1.0
