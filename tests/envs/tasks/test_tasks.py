"""What all tasks have in common: registration, the interface of environments, pictures, saving."""

from __future__ import annotations

import gymnasium as gym
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from tensordict import TensorDictBase
from torchrl.envs import EnvBase

from rlkit_sac.envs import load_episodes, make_env, save_episodes
from rlkit_sac.envs.tasks import NAMESPACE

NAMES = ("Platform-v0", "Moving-v0", "Sliding-v0", "HardMove-v0", "HardMove-v1", "Goal-v0")
TASKS = [f"{NAMESPACE}/{name}" for name in NAMES]


@pytest.mark.filterwarnings("ignore:.*For Box action spaces, we recommend:UserWarning")
@pytest.mark.filterwarnings("ignore:.*A Box observation space m.*infinity:UserWarning")
@pytest.mark.parametrize("task", TASKS)
def test_gymnasium_finds_nothing_to_complain_about(task: str) -> None:
    check_env(gym.make(task, render_mode="rgb_array").unwrapped)


def random_steps(env: EnvBase, state: TensorDictBase, count: int) -> list[TensorDictBase]:
    steps = []
    for _ in range(count):
        step, state = env.step_and_maybe_reset(env.rand_action(state))
        steps.append(step)
    return steps


@pytest.mark.parametrize("task", TASKS)
def test_a_saved_episode_goes_on_bit_for_bit(task: str) -> None:
    env, again = (make_env(task, seed=5, max_episode_steps=40) for _ in range(2))
    for count in (1, 7, 30):
        torch.manual_seed(count)
        random_steps(env, env.reset(), count)
        assert load_episodes(again, save_episodes(env)) == [True]
        again.reset()
        futures = []
        for one in (env, again):
            torch.manual_seed(0)
            futures.append(random_steps(one, one.fake_tensordict().zero_(), 60))
        assert any(step["next", "done"].item() for step in futures[0])
        for first, second in zip(*futures, strict=True):
            for key in ("observation", "reward", "terminated", "truncated"):
                assert torch.equal(first["next", key], second["next", key])
