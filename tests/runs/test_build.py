"""What a machine or a task lacks is one line, before anything is created."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box

from rlkit_sac.config import CollectorConfig, EnvConfig, ReplayConfig
from rlkit_sac.data import example_transition
from rlkit_sac.envs import continuous_action_bounds
from rlkit_sac.errors import ConfigError
from rlkit_sac.runs import RunConfig, make_envs, make_replay

OPEN: list[gym.Env] = []


class Odd(gym.Env):
    """A task that may be odd in several ways at once."""

    def __init__(
        self, observation=(3,), reward=None, action=(1,), bound=1.0, integers=False
    ) -> None:
        self.observation_space = Box(-1, 1, observation)
        self.action_space = Box(-bound, bound, action)
        if integers:
            self.action_space = Box(-1, 1, action, dtype=np.int64)
        if reward is not None:
            self.reward_space = Box(0, 1, reward)
        OPEN.append(self)

    def close(self) -> None:
        OPEN.remove(self)


@pytest.fixture(autouse=True)
def odd_task():
    gym.register("Odd-v0", entry_point=Odd)
    OPEN.clear()
    yield
    assert not OPEN, "the check left its environment open"
    gym.registry.pop("Odd-v0")


def odd(**kwargs) -> RunConfig:
    return RunConfig(env=EnvConfig(id="Odd-v0", kwargs=kwargs))


def build(config: RunConfig) -> None:
    with make_envs(config) as (env, _):
        continuous_action_bounds(env)
        make_replay(config, env, example_transition(env, ["observation", "action"]))


@pytest.mark.parametrize(
    ("config", "key", "part"),
    [
        (RunConfig(device="cuda:99"), "device", "device 'cuda:99' is not available here"),
        (RunConfig(env=EnvConfig(id="Pendulun-v1")), "env.id", "Did you mean: `Pendulum`"),
        (
            RunConfig(env=EnvConfig(kwargs={"wind": 1})),
            "env.id",
            "unexpected keyword argument 'wind'",
        ),
        (RunConfig(env=EnvConfig(id="CartPole-v1")), "env.id", "acts in continuous spaces"),
        (odd(bound=float("inf")), "env.id", "action dimension [0] has the bounds [-inf"),
        (odd(integers=True), "env.id", "the actions are Discrete(3)"),
        (odd(reward=(2, 3)), "env.id", "the reward has the shape [2, 3]"),
        (
            RunConfig(replay=ReplayConfig(capacity=10**12)),
            "replay.capacity",
            "the largest capacity that fits is",
        ),
        (
            RunConfig(env=EnvConfig(num_envs=2), collector=CollectorConfig(frames_per_batch=3)),
            "collector.frames_per_batch",
            "must be a multiple of the number of environments (2), got 3: choose 2 or 4",
        ),
    ],
)
def test_each_shortcoming_is_one_line(config, key, part):
    config.device = "cpu" if config.device == "auto" else config.device
    with pytest.raises(ConfigError) as refused:
        build(config)
    found_key, _, message = str(refused.value).partition(": ")
    assert found_key == key
    assert part in message
    assert "\n" not in message
