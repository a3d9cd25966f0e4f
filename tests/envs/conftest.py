"""Small environments with unusual spaces, which remember the actions they receive."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, Space

Register = Callable[..., str]


class Still(gym.Env[Any, Any]):
    """Observes zeros, rewards nothing, and never ends by itself."""

    observation_space: Any = Box(-1.0, 1.0, (2,))
    action_space: Any = Box(-1.0, 1.0, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(self.observation_space.shape, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(self.observation_space.shape, np.float32), 0.0, False, False, {}


class Recorder(gym.Env[Any, Any]):
    """Counts its steps, returns samples of its observation space, and never ends by itself."""

    def __init__(self, action_space: Space[Any], observation_space: Space[Any]) -> None:
        self.action_space = action_space
        self.observation_space = observation_space
        self.received: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.received.append(action)
        return self.observation_space.sample(), float(len(self.received)), False, False, {}


class Restless(Recorder):
    """Draws from its action space on its own, and says nothing about rendering."""

    metadata = {}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__(Discrete(1000), Box(-1.0, 1.0, (1,), np.float32))

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), float(self.action_space.sample()), False, False, {}


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo writes MUJOCO_LOG.TXT to the working directory when Gymnasium is used directly."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def register() -> Iterator[Register]:
    """Registers an environment for one test: ``register(action_space, observation_space)``."""
    ids: list[str] = []

    def add(
        action_space: Space[Any] | None = None,
        observation_space: Space[Any] | None = None,
        *,
        entry_point: Any = Recorder,
        **options: Any,
    ) -> str:
        if entry_point is Recorder:
            options["kwargs"] = {
                "action_space": action_space or Discrete(2),
                "observation_space": observation_space or Box(-1.0, 1.0, (2,), np.float32),
            }
        ids.append(f"Odd{len(ids)}-v0")
        gym.register(ids[-1], entry_point, **options)
        return ids[-1]

    yield add
    for env_id in ids:
        del gym.registry[env_id]


@pytest.fixture
def restless(register: Register) -> str:
    return register(entry_point=Restless)
