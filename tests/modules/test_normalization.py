"""Running statistics against NumPy over all that came, and what they do to observations."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict

from rlkit_sac.data import make_collector
from rlkit_sac.envs import make_env
from rlkit_sac.modules import (
    NormalizedPolicy,
    ObservationNormalizer,
    RewardNormalizer,
    tanh_gaussian_actor,
)
from rlkit_sac.modules.normalization import RunningStatistics
from tests.data.collect.kinds import BOTH, Kind, of_kind


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=6),
    st.sampled_from([0.0, 1.0, -1e4, 1e7]),
    st.sampled_from([1.0, 1e-3, 1e5]),
    st.integers(0, 1000),
)
def test_statistics_are_those_of_all_values(sizes, offset, scale, seed) -> None:
    rng = np.random.default_rng(seed)
    groups = [offset + scale * rng.normal(size=(size, 3)) for size in sizes]
    statistics = RunningStatistics([3])
    for group in groups:
        statistics.update(torch.from_numpy(group))
    everything = np.concatenate(groups)
    if not len(everything):
        assert statistics.variance.tolist() == [1.0] * 3
        return
    np.testing.assert_allclose(statistics.mean, everything.mean(0), rtol=1e-9, atol=1e-9 * scale)
    # Means are known to the spacing of numbers near the offset.
    slack = 1e-15 * abs(offset) * (scale + 1e-15 * abs(offset)) + 1e-9 * scale**2
    np.testing.assert_allclose(statistics.variance, everything.var(0), rtol=1e-6, atol=slack)


def test_many_small_groups_lose_no_precision() -> None:
    """As in a run, which brings one frame at a time."""
    values = 1000 + 0.01 * torch.randn(20_000, 1, dtype=torch.float64)
    statistics = RunningStatistics([1])
    for value in values.split(1):
        statistics.update(value)
    torch.testing.assert_close(statistics.mean[0], values.mean(), rtol=1e-13, atol=0)
    torch.testing.assert_close(statistics.variance[0], values.var(correction=0), rtol=1e-8, atol=0)


@pytest.mark.parametrize("num_envs", [1, 3])
def test_rewards_are_divided_as_gymnasium_does(num_envs: int) -> None:
    """Its wrapper's formula over real episodes, some of which end, environment by environment."""
    env = make_env("Hopper-v5", num_envs=num_envs, seed=0)
    policy = tanh_gaussian_actor(11, [-1.0] * 3, [1.0] * 3, num_cells=[8])
    frames = 20 * num_envs
    collector = make_collector(
        env, policy, total_frames=15 * frames, frames_per_batch=frames, init_random_frames=10_000
    )
    batches = list(collector)
    normalizer = RewardNormalizer(0.95, num_envs=num_envs)
    for batch in batches:
        normalizer.update(batch["next", "reward"], batch["next", "done"])
    whole = torch.cat(batches, -1).reshape(num_envs, -1)
    assert whole["next", "done"].sum() > 3 * num_envs
    returns = []
    for environment in whole:
        total = 0.0
        for frame in environment:
            total = 0.95 * total + frame["next", "reward"].double().item()
            returns.append(total)
            total *= 1 - frame["next", "done"].item()
    deviation = np.sqrt(np.var(returns) + 1e-8)
    rewards = whole["next", "reward"].double()
    torch.testing.assert_close(normalizer(rewards), (rewards / deviation).clamp(-10, 10))


def test_a_bounded_divisor_keeps_every_return_seen_so_far_within_five() -> None:
    torch.manual_seed(0)
    reward, done = torch.randn(2, 300, 1).double(), torch.rand(2, 300, 1) < 0.05
    reward[0, 40] = 60.0  # one large return must not be beyond, and shrinks the rest no further
    normalizer = RewardNormalizer(0.9, num_envs=2, clip=None, bounded=True)
    normalizer.update(reward, done)
    returns = []
    for environment in range(2):
        total = 0.0
        for now, ended in zip(reward[environment, :, 0], done[environment, :, 0], strict=True):
            total = 0.9 * total + now.item()
            returns.append(total)
            total *= 1 - ended.item()
    divisor = max(np.std(returns), max(map(abs, returns)) / 5)
    assert divisor > 1.5 * np.std(returns)
    torch.testing.assert_close(normalizer(reward), reward / divisor)
    calm = RewardNormalizer(0.9, clip=None, bounded=True)
    calm.update(torch.tensor([[3.0], [-3.0]] * 50), torch.ones(100, 1, dtype=torch.bool))
    torch.testing.assert_close(calm(torch.tensor([3.0])), torch.tensor([1.0]))


@pytest.mark.parametrize(("gamma", "bounds"), [(0.5, [2.0, 3.0, 3.5]), (1.0, [2.0, 4.0, 6.0])])
def test_a_sum_of_rewards_is_bounded_as_a_sum_of_bounded_rewards(gamma, bounds) -> None:
    normalizer, steps = RewardNormalizer(gamma, clip=2.0), torch.tensor([[1.0], [2.0], [3.0]])
    large, small = torch.full([3, 1], -1e3), torch.full([3, 1], 1.5)
    torch.testing.assert_close(normalizer(large, steps), -torch.tensor(bounds).unsqueeze(-1))
    torch.testing.assert_close(normalizer(small, steps), small)
    assert normalizer(large).tolist() == [[-2.0]] * 3


def test_each_reward_dimension_has_its_own_statistics() -> None:
    reward = torch.randn(1, 200, 2, dtype=torch.float64) * torch.tensor([1.0, 50.0])
    done = torch.rand(1, 200, 1) < 0.1
    both = RewardNormalizer(0.9, reward_dim=2)
    both.update(reward, done)
    for dim in range(2):
        alone = RewardNormalizer(0.9)
        alone.update(reward[..., dim : dim + 1], done)
        expected = alone(reward[..., dim : dim + 1])
        torch.testing.assert_close(both(reward)[..., dim : dim + 1], expected)


@BOTH
def test_a_policy_acts_on_normalized_observations_and_the_batch_has_them_raw(kind: Kind) -> None:
    torch.manual_seed(0)
    actor = tanh_gaussian_actor(3, [-1.0], [1.0], num_cells=[8])
    normalizer = ObservationNormalizer(3)
    normalizer.update(torch.randn(100, 3) * 4 + 2)
    policy = NormalizedPolicy(actor, normalizer)
    env = of_kind(make_env("Pendulum-v1", seed=0), kind)
    collector = make_collector(env, policy, total_frames=30, frames_per_batch=10)
    raw = gym.make("Pendulum-v1").observation_space
    for batch in collector:
        assert all(raw.contains(each) for each in batch["observation"].numpy())
        states = TensorDict(observation=normalizer(batch["observation"]), batch_size=[10])
        torch.testing.assert_close(batch["loc"], actor.module[0](states)["loc"])
        normalizer.update(batch["observation"])  # which the next batch follows
