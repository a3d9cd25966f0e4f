"""What a machine or a task lacks is said before anything is created."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box
from torchrl.envs import EnvBase

from rlkit_sac.config import CollectorConfig, EnvConfig, LoggingConfig, ReplayConfig
from rlkit_sac.config.conditions import config_errors
from rlkit_sac.data import check_replay_fits, example_transition
from rlkit_sac.data.batch_steps import steps_per_batch
from rlkit_sac.envs import (
    continuous_action_bounds,
    make_env,
)
from rlkit_sac.errors import ConfigError
from rlkit_sac.runs import RunConfig
from rlkit_sac.runs.preflight import check_writable


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


def test_the_defaults_and_an_ordinary_task_pass():
    assert config_errors(Config()) == []
    assert config_errors(odd()) == []
    light = CollectorConfig(kind="light")
    assert config_errors(Config(env=EnvConfig(num_envs=2), collector=light)) == []


@pytest.mark.parametrize(
    ("config", "key", "part"),
    [
        (Config(device="cuda:99"), "device", "device 'cuda:99' is not available here"),
        (Config(env=EnvConfig(id="Pendulun-v1")), "env.id", "Did you mean: `Pendulum`"),
        (Config(env=EnvConfig(kwargs={"wind": 1})), "env.id", "unexpected keyword argument 'wind'"),
        (Config(env=EnvConfig(id="CartPole-v1")), "env.id", "acts in continuous spaces"),
        (odd(bound=float("inf")), "env.id", "action dimension [0] has the bounds [-inf"),
        (odd(integers=True), "env.id", "must be floating-point"),
        (odd(observation=(8, 8, 3)), "env.id", "the observation has the shape [8, 8, 3]"),
        (odd(reward=(2, 3)), "env.id", "the reward has the shape [2, 3]"),
        (
            Config(replay=ReplayConfig(capacity=10**12)),
            "replay.capacity",
            "the largest capacity that fits is",
        ),
        (
            Config(replay=ReplayConfig(capacity=10**15, storage="memmap")),
            "replay.capacity",
            "but the disk of",
        ),
        (
            Config(env=EnvConfig(num_envs=2), collector=CollectorConfig(frames_per_batch=3)),
            "collector.frames_per_batch",
            "must be a multiple of the number of environments (2), got 3: choose 2 or 4",
        ),
        (
            Config(logging=LoggingConfig(dir=f"{__file__}/runs")),
            "logging.dir",
            f"cannot be written: {__file__} is not a folder",
        ),
    ],
)
def test_each_shortcoming_is_one_line(config, key, part):
    ((found_key, message),) = config_errors(config)
    assert found_key == key
    assert part in message


def test_all_shortcomings_come_at_once():
    config = odd(observation=(8, 8, 3), reward=(2, 3))
    config.device = "cuda:99"
    config.env.num_envs = 4
    config.collector.frames_per_batch = 2
    config.logging.dir = f"{__file__}/runs"
    keys = [key for key, _ in config_errors(config)]
    assert keys == ["device", "collector.frames_per_batch", "logging.dir", "env.id", "env.id"]


def test_each_missing_logger_is_one_line(monkeypatch):
    monkeypatch.setattr("rlkit_sac.runs.extras.find_spec", lambda name: None)
    assert config_errors(Config(logging=LoggingConfig(tensorboard=True, wandb=True))) == [
        (f"logging.{name}", f"the package {name} is missing: pip install 'rlkit_sac[{name}]'")
        for name in ("tensorboard", "wandb")
    ]


def test_an_environment_that_could_not_be_read_is_skipped():
    """The task of the defaults would be refused for the arguments of the task that was meant."""
    config = Config(env=EnvConfig(kwargs={"g": 9.81, "wind": 1}))
    assert config_errors(config, ["env.id"]) == []
    assert config_errors(config, ["env.idd"]) == []
    assert len(config_errors(config, ["seed"])) == 1


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


def test_one_frame_of_each_environment_by_default():
    assert CollectorConfig().batch_frames(4) == 4
    assert CollectorConfig(frames_per_batch=8).batch_frames(4) == 8
    assert steps_per_batch(4, 4) == 1
    assert steps_per_batch(8, 4) == 2
    with pytest.raises(ConfigError, match=r"got 3: choose 4$"):
        steps_per_batch(3, 4)


def test_nothing_is_made_by_the_check_of_a_folder(tmp_path: Path):
    check_writable(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_a_null_character_is_one_line():
    for task in ("Pendulum\0-v1", "a\0b:Pendulum-v1", "Pendulum-v1\0"):
        ((key, text),) = config_errors(Config(env=EnvConfig(id=task)))
        assert key == "env.id"
        assert "\n" not in text


def test_a_folder_without_permission_is_named(tmp_path: Path, monkeypatch):
    refused = tmp_path / "locked"
    refused.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != refused)
    check_writable(tmp_path / "a")
    with pytest.raises(ConfigError, match=r"b cannot be written: no permission to write in .*ked"):
        check_writable(refused / "a" / "b")


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ConfigError, match="no permission"):
            check_writable(tmp_path / "runs")
    finally:
        tmp_path.chmod(0o700)


def test_a_name_too_long_for_the_system_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="File name too long"):
        check_writable(tmp_path / ("x" * 300))


def test_the_task_is_built_once_for_all_checks(monkeypatch):
    made = []
    monkeypatch.setattr(
        Odd, "__init__", lambda self, __init__=Odd.__init__: made.append(self) or __init__(self)
    )
    assert config_errors(odd()) == []
    assert len(made) == 1
