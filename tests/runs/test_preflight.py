"""What a machine or a task lacks is said before anything is created."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box
from torchrl.envs import EnvBase

from rlkit_sac.config import CollectorConfig, EnvConfig, ReplayConfig
from rlkit_sac.config.conditions import config_errors
from rlkit_sac.data import check_replay_fits, example_transition
from rlkit_sac.envs import continuous_action_bounds, make_env
from rlkit_sac.runs import RunConfig


@dataclass
class Config(RunConfig):
    """A recipe for continuous actions."""

    device: str = "cpu"
    """Where to compute."""

    def task_checks(self) -> list[Callable[[EnvBase], object]]:
        return [continuous_action_bounds, *super().task_checks()]


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


def odd(**kwargs) -> Config:
    return Config(env=EnvConfig(id="Odd-v0", kwargs=kwargs))


@pytest.mark.parametrize(
    ("config", "key", "part"),
    [
        (Config(device="cuda:99"), "device", "device 'cuda:99' is not available here"),
        (Config(env=EnvConfig(id="Pendulun-v1")), "env.id", "Did you mean: `Pendulum`"),
        (Config(env=EnvConfig(kwargs={"wind": 1})), "env.id", "unexpected keyword argument 'wind'"),
        (Config(env=EnvConfig(id="CartPole-v1")), "env.id", "acts in continuous spaces"),
        (odd(bound=float("inf")), "env.id", "action dimension [0] has the bounds [-inf"),
        (odd(integers=True), "env.id", "the actions are Discrete(3)"),
        (odd(reward=(2, 3)), "env.id", "the reward has the shape [2, 3]"),
        (
            Config(replay=ReplayConfig(capacity=10**12)),
            "replay.capacity",
            "the largest capacity that fits is",
        ),
        (
            Config(env=EnvConfig(num_envs=2), collector=CollectorConfig(frames_per_batch=3)),
            "collector.frames_per_batch",
            "must be a multiple of the number of environments (2), got 3: choose 2 or 4",
        ),
    ],
)
def test_each_shortcoming_is_one_line(config, key, part):
    ((found_key, message),) = config_errors(config)
    assert found_key == key
    assert part in message


def test_replay_is_checked_with_the_transitions_it_will_hold(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "rlkit_sac.runs.run_config.check_replay_fits",
        lambda example, **options: seen.append((example, options)),
    )
    assert config_errors(Config(replay=ReplayConfig(capacity=7000, storage="memmap"))) == []
    ((example, options),) = seen
    assert sum(value.numel() for value in example.values(True, True)) == 3 + 1 + 3 + 1 + 1 + 1
    assert (options["capacity"], options["storage"]) == (7000, "memmap")
    keys = list(example.keys(True, True))
    check_replay_fits(example_transition(make_env("Pendulum-v1"), keys), capacity=7000)
