"""NaN and infinity that appear in evaluations alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box

from rlkit_sac.envs import make_env
from rlkit_sac.errors import RunError
from rlkit_sac.modules import tanh_gaussian_actor
from rlkit_sac.runs import read_config
from rlkit_sac.runs.checkpoints import step_folders
from rlkit_sac.runs.evaluation import evaluate
from rlkit_sac.runs.tables.evaluations import best_frames
from tests.recipes.loading import load_recipe
from tests.reliability.runs import SHORT, only_run


class Bad(gym.Env[Any, Any]):
    """Returns a bad number in step ``at``, 0 for the reset, from its reset ``episode`` on.

    Args:
        strict: whether an action of NaN is an error.
        made: of these environments in the process, counted from 1, this one is bad; 0 for all.
    """

    observation_space, action_space = Box(-1.0, 1.0, (2,)), Box(-1.0, 1.0, (1,))
    count = 0

    def __init__(
        self,
        what: str = "reward",
        number: str = "nan",
        at: int = 3,
        episode: int = 1,
        strict: bool = False,
        made: int = 0,
    ) -> None:
        Bad.count += 1
        self.what, self.number, self.bad_at = what, float(number), (episode, at)
        if made not in (0, Bad.count):
            self.bad_at = (0, -1)
        self.strict, self.episode, self.steps = strict, 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episode, self.steps = self.episode + 1, 0
        return self.observe(), {}

    def is_bad(self) -> bool:
        episode, step = self.bad_at
        return self.episode >= episode and self.steps == step

    def observe(self) -> Any:
        bad = self.what == "observation" and self.is_bad()
        return np.full(2, self.number if bad else 0.5, np.float32)

    def step(self, action: Any) -> Any:
        assert not (self.strict and np.isnan(action).any()), "an action of NaN"
        self.steps += 1
        bad = self.what == "reward" and self.is_bad()
        return self.observe(), self.number if bad else 1.0, self.steps == 5, False, {}


@pytest.fixture(autouse=True)
def _task() -> Iterator[None]:
    Bad.count = 0
    gym.register("Bad-v0", entry_point=Bad)
    yield
    del gym.registry["Bad-v0"]


def message(*, num_envs: int, **kwargs: Any) -> str:
    policy = tanh_gaussian_actor(2, [-1.0], [1.0], num_cells=[4])
    env = make_env("Bad-v0", num_envs=num_envs, kwargs=kwargs)
    with pytest.raises(RunError) as info:
        evaluate(policy, env, episodes=4, seed=0)
    text = str(info.value)
    assert text.startswith("in an evaluation: ")
    assert "\n" not in text
    return text.removeprefix("in an evaluation: ")


@pytest.mark.parametrize("num_envs", [1, 2])
@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("what", ["reward", "observation"])
def test_the_frame_of_the_episode_is_named(what: str, number: str, num_envs: int) -> None:
    text = message(what=what, number=number, num_envs=num_envs)
    assert text == (
        f"('next', '{what}') is {number} at frame 3 of its episode in environment 0. "
        "The environment returned it: correct it there"
    )


# ---------------------------------------------------------------------------------- of a run


def run(folder: Path, **kwargs: Any) -> str:
    """Train with an environment of evaluations that is bad, and return the error."""
    recipe = load_recipe("sac")
    options = ["--env.id", "Bad-v0", "--collector.total_frames", "400", *SHORT]
    options += ["--logging.dir", str(folder / "runs"), "--env.kwargs", json.dumps(kwargs)]
    with pytest.raises(RunError) as info:
        recipe.main(read_config(recipe.SACConfig, options))
    return str(info.value)


@pytest.mark.parametrize("what", ["reward", "observation"])
def test_the_run_fails_and_keeps_its_last_checkpoint(tmp_path: Path, what: str) -> None:
    text = run(tmp_path, what=what, number="inf", episode=4, made=EVALUATED)
    assert text.startswith(f"in an evaluation: ('next', '{what}') is inf at frame 3 of its episode")
    path = only_run(tmp_path)
    assert json.loads((path / "run.json").read_text())["status"] == "failed"
    rows = (path / "evaluations.csv").read_text()
    assert "inf" not in rows
    assert "nan" not in rows
    assert rows.count("\n") >= 2
    folders = step_folders(path / "checkpoints")
    assert best_frames(path, among=folders) in folders


#: Training makes the first environment.
EVALUATED = 2
