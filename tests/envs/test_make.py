from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector

from rlkit_sac.envs import make_env
from rlkit_sac.envs.seeding import episode_seed

REAL = [
    "Pendulum-v1",
    "CartPole-v1",
    "MountainCarContinuous-v0",
    "HalfCheetah-v5",
    "Reacher-v5",
    "LunarLanderContinuous-v3",
]


def rollout(env_id: str, frames: int = 120, **options: object) -> TensorDictBase:
    torch.manual_seed(0)
    env = make_env(env_id, **options)  # type: ignore[arg-type]
    steps = env.rollout(frames, break_when_any_done=False)
    env.close()
    return steps


@pytest.mark.parametrize("env_id", REAL)
def test_the_stream_equals_a_plain_loop_with_the_same_seeds_and_actions(env_id: str) -> None:
    steps = rollout(env_id, seed=3, rescale_actions=False, max_episode_steps=50)
    plain = gym.make(env_id, max_episode_steps=50)
    discrete = isinstance(plain.action_space, gym.spaces.Discrete)
    episode, total, begins = 0, 0.0, True
    for step in steps:
        if begins:
            observation, _ = plain.reset(seed=episode_seed(3, 0, episode))
            episode, total = episode + 1, 0.0
        assert step["is_init"].item() == begins
        assert np.array_equal(step["observation"], np.float32(observation))
        action = int(step["action"]) if discrete else step["action"].numpy()
        observation, reward, terminated, truncated, _ = plain.step(action)
        total += float(reward)
        following = step["next"]
        assert np.array_equal(following["observation"], np.float32(observation))
        assert following["reward"].item() == np.float32(reward)
        assert following["terminated"].item() == terminated
        assert following["truncated"].item() == truncated
        assert following["done"].item() == (terminated or truncated)
        assert following["episode_reward"].item() == total
        begins = terminated or truncated
    assert episode > 2


def test_a_time_limit_truncates_and_keeps_the_last_observation() -> None:
    steps = rollout("Pendulum-v1", frames=14, max_episode_steps=7)
    expected = [False] * 6 + [True] + [False] * 6 + [True]
    assert steps["next", "truncated"].flatten().tolist() == expected
    assert not steps["next", "terminated"].any()
    assert steps["next", "step_count"].flatten().tolist() == [1, 2, 3, 4, 5, 6, 7] * 2
    assert not torch.equal(steps["next", "observation"][6], steps["observation"][7])


@pytest.mark.parametrize("num_envs", [1, 2])
def test_the_seed_decides_the_stream(num_envs: int) -> None:
    first, again, other = (
        rollout("HalfCheetah-v5", 30, seed=seed, num_envs=num_envs) for seed in (1, 1, 2)
    )
    assert torch.equal(first["next", "observation"], again["next", "observation"])
    assert torch.equal(first["next", "reward"], again["next", "reward"])
    assert not torch.equal(first["observation"][..., 0, :], other["observation"][..., 0, :])


def constant_policy(value: float) -> TensorDictModule:
    return TensorDictModule(
        lambda observation: torch.full((*observation.shape[:-1], 1), value),
        in_keys=["observation"],
        out_keys=["action"],
    )


def test_a_collector_gives_the_stream_of_a_rollout_whatever_its_batches() -> None:
    env = make_env("Pendulum-v1", seed=2, max_episode_steps=30)
    expected = env.rollout(100, policy=constant_policy(0.25), break_when_any_done=False)
    for frames_per_batch in (1, 50):
        collector = Collector(
            make_env("Pendulum-v1", seed=2, max_episode_steps=30),
            constant_policy(0.25),
            frames_per_batch=frames_per_batch,
            total_frames=100,
        )
        # Batches may share memory with the collector.
        steps = torch.cat([batch.clone() for batch in collector])
        collector.shutdown()
        for key in expected.keys(True, True):
            assert torch.equal(steps[key], expected[key]), (frames_per_batch, key)
