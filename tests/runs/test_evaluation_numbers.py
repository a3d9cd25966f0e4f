"""NaN and infinity that appear in evaluations alone."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box

from rlkit_sac.envs import make_env
from rlkit_sac.errors import RunError
from rlkit_sac.modules import tanh_gaussian_actor
from rlkit_sac.runs.evaluation import evaluate


class Bad(gym.Env[Any, Any]):
    """Returns infinity in its third step."""

    observation_space, action_space = Box(-1.0, 1.0, (2,)), Box(-1.0, 1.0, (1,))

    def __init__(self, what: str) -> None:
        self.what, self.steps = what, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        number = np.inf if self.steps == 3 else 0.5
        observation = np.full(2, number if self.what == "observation" else 0.5, np.float32)
        return observation, number if self.what == "reward" else 0.5, self.steps == 5, False, {}


@pytest.mark.parametrize("what", ["reward", "observation"])
def test_the_frame_of_the_episode_is_named(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gym.registry, "Bad-v0", gym.envs.registration.EnvSpec("Bad-v0", Bad))
    policy = tanh_gaussian_actor(2, [-1.0], [1.0], num_cells=[4])
    env = make_env("Bad-v0", num_envs=2, kwargs={"what": what})
    wanted = rf"in an evaluation: \('next', '{what}'\) is inf at frame 3 .* in environment 0"
    with pytest.raises(RunError, match=wanted):
        evaluate(policy, env, episodes=4, seed=0)
