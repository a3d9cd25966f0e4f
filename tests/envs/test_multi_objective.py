"""The environments of MO-Gymnasium, by way of `make_env`."""

import gymnasium as gym
import mo_gymnasium
import numpy as np
import pytest
import torch
from mo_gymnasium.wrappers import LinearReward
from tensordict import TensorDict
from torchrl.envs import EnvBase

from rlkit_sac.envs import make_env
from rlkit_sac.errors import EnvironmentFault

CHEETAH, TREASURE = "mo-halfcheetah-v5", "mo_gymnasium:deep-sea-treasure-v0"


def follow(env: EnvBase, actions: torch.Tensor) -> TensorDict:
    """What comes of actions ``[T, *]``, resets included."""
    state, steps = env.reset(), []
    for action in actions:
        step, state = env.step_and_maybe_reset(state.set("action", action))
        steps.append(step)
    return torch.stack(steps)


def test_weighted_rewards_of_the_cheetah_are_those_of_the_scalar_task() -> None:
    actions = 2 * torch.rand(150, 6, generator=torch.Generator().manual_seed(0)) - 1
    vector, scalar = (
        follow(make_env(env_id, seed=3, max_episode_steps=60), actions)
        for env_id in (CHEETAH, "HalfCheetah-v5")
    )
    assert torch.equal(vector["next", "observation"], scalar["next", "observation"])
    assert vector["next", "truncated"].sum() == 2
    for key in ("done", "terminated", "truncated"):
        assert torch.equal(vector["next", key], scalar["next", key])
    weighted = vector["next", "reward"] @ torch.tensor([1.0, 0.1])
    torch.testing.assert_close(weighted, scalar["next", "reward"].squeeze(-1), rtol=0, atol=1e-6)
    sums = vector["next", "episode_reward"] @ torch.tensor([1.0, 0.1]).double()
    wanted = scalar["next", "episode_reward"].squeeze(-1)
    torch.testing.assert_close(sums, wanted, rtol=0, atol=1e-4)


class Summed(gym.Wrapper):
    def step(self, action):
        observation, reward, *others = self.env.step(action)
        return observation, float(reward.sum()), *others


class Declared(Summed):
    reward_space = gym.spaces.Box(-np.inf, np.inf, ())


def test_a_wrapper_that_makes_one_number_of_the_rewards() -> None:
    def cheetah() -> gym.Env:
        return mo_gymnasium.make(CHEETAH)

    actions = torch.zeros(3, 6)
    vector = follow(make_env(CHEETAH), actions)["next", "reward"]
    for make in (lambda: LinearReward(cheetah()), lambda: Declared(cheetah())):
        summed = follow(make_env(make), actions)["next", "reward"]
        torch.testing.assert_close(summed, vector.sum(-1, keepdim=True))
    with pytest.raises(EnvironmentFault, match=r"shape \[\], wanted \[2\] of reward_space, which"):
        follow(make_env(lambda: Summed(cheetah())), actions)
