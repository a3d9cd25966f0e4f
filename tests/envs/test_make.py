import gymnasium as gym
import numpy as np
import pytest
import torch
from tensordict import TensorDictBase

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
