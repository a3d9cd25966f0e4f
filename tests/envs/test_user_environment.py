"""An environment as people wrote them for Gym, with parameterized actions: it runs unchanged."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torchrl.data import Categorical, Composite
from torchrl.envs import EnvBase
from torchrl.envs.utils import RandomPolicy, check_env_specs

from rlkit_sac.data import example_transition, make_collector
from rlkit_sac.envs import (
    hybrid_action_bounds,
    load_episodes,
    make_env,
    observation_dim,
    parameter_mask,
    save_episodes,
)

KEYS = ["observation", "action", ("next", "observation"), ("next", "reward"), ("next", "done")]


class Kicker(gym.Env):
    """Kicks a ball: bounds in float64 and int64, (state, steps) observations in float64."""

    def __init__(self):
        low = [np.array([0]), np.array([-1.0, 0.0]), np.zeros(1)]
        high = [np.array([30]), np.array([1.0, 5.0]), 720 * np.ones(1)]
        self.action_space = spaces.Tuple(
            (
                spaces.Discrete(3),
                spaces.Tuple(
                    tuple(spaces.Box(low[i], high[i], dtype=np.float32) for i in range(3))
                ),
            )
        )
        self.observation_space = spaces.Tuple(
            (spaces.Box(low=0.0, high=1.0, shape=(4,)), spaces.Discrete(200))
        )

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.state = self.np_random.uniform(size=4)
        return (self.state, self.steps), {}

    def step(self, action):
        act_index = action[0]
        assert type(act_index) is int
        parameters = action[1][act_index]
        assert self.action_space.contains(action), f"{action!r} is invalid"
        self.steps += 1
        self.state = np.clip(self.state + 0.01 * self.np_random.normal(size=4), 0.0, 1.0)
        reward = float(parameters.sum()) / 720
        return (self.state, self.steps), reward, self.steps == 9, False, {}


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Any:
    gym.register("Kicker-v0", Kicker)
    yield
    del gym.registry["Kicker-v0"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("num_envs", [1, 2])
def test_it_becomes_an_environment_with_nested_actions_and_one_vector(num_envs: int) -> None:
    env = make_env("Kicker-v0", num_envs=num_envs)
    check_env_specs(env)
    spec = env.full_action_spec["action"]
    assert isinstance(spec, Composite)
    assert isinstance(spec["discrete"], Categorical)
    assert observation_dim(env) == 5
    assert hybrid_action_bounds(env) == (3, [-1.0] * 4, [1.0] * 4)
    mask = parameter_mask(env)
    assert mask.int().tolist() == [[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]]
    random = env.rand_action(env.reset())["action"]
    batch = [] if num_envs == 1 else [num_envs]
    assert random["discrete"].shape == torch.Size(batch)
    assert random["continuous"].shape == torch.Size([*batch, 4])
    example = example_transition(env, KEYS)
    assert example["action", "discrete"].dtype == torch.int64
    assert example["action", "continuous"].shape == (4,)


def policy_of(env: EnvBase) -> RandomPolicy:
    return RandomPolicy(env.full_action_spec)


def test_a_collector_goes_on_in_the_middle_of_an_episode() -> None:
    env, again = make_env("Kicker-v0", seed=1), make_env("Kicker-v0", seed=1)
    collectors = [
        make_collector(e, policy_of(e), total_frames=40, frames_per_batch=4) for e in (env, again)
    ]
    first, second = (iter(collector) for collector in collectors)
    for _ in range(3):
        next(first)
    state, random = collectors[0].state_dict(), torch.get_rng_state()
    expected = next(first)
    torch.set_rng_state(random)
    collectors[1].load_state_dict(state)
    torch.set_rng_state(random)
    found = next(second)
    for key in ("observation", ("next", "observation"), ("action", "continuous"), "is_init"):
        assert torch.equal(found[key], expected[key])
    for part in ("discrete", "continuous"):
        assert torch.equal(found["prev_action", part], expected["prev_action", part])
    assert load_episodes(again, save_episodes(env)) == [True]
