"""A user's environment in a module of their own, under the unchanged recipe, as a real process."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
import torch

from rlkit_sac.envs import closing_env, make_env, parameter_mask
from rlkit_sac.runs import load_policy
from tests import processes
from tests.recipes.loading import RECIPES

MODULE = '''
"""Runs, hops and leaps: one parameter for each, in bounds of its own."""

import json
import os

import gymnasium as gym
import numpy as np
from gymnasium import spaces

MAXIMA = [30, 720, 430]


class Runner(gym.Env):
    def __init__(self, log=None):
        boxes = [
            spaces.Box(np.array([0]), np.array([maximum]), dtype=np.float32) for maximum in MAXIMA
        ]
        self.action_space = spaces.Tuple((spaces.Discrete(3), spaces.Tuple(tuple(boxes))))
        self.observation_space = spaces.Tuple(
            (spaces.Box(low=0.0, high=1.0, shape=(9,)), spaces.Discrete(200))
        )
        self.log = log

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.x = 0, 0.0
        return self.observe(), {}

    def observe(self):
        return np.append(self.np_random.uniform(size=8), min(self.x, 1.0)), self.steps

    def step(self, action):
        act_index, parameters = action
        param = parameters[act_index][0]
        if self.log is not None:
            with open(self.log, "a") as log:
                log.write(json.dumps(describe(action, self.action_space)) + "\\n")
        self.steps += 1
        before, self.x = self.x, self.x + 0.2 * param / MAXIMA[act_index]
        return self.observe(), self.x - before, self.x >= 1, self.steps >= 30, {}


def describe(action, space):
    index, parameters = action
    return {
        "process": os.getpid(),
        "types": [type(part).__name__ for part in (action, index, parameters, *parameters)],
        "arrays": [[str(part.dtype), list(part.shape)] for part in parameters],
        "index": index,
        "values": [float(part[0]) for part in parameters],
        "inside": space.contains(action),
    }


gym.register("Runner-v0", entry_point=Runner)
'''
ID = "my_tasks_of_old:Runner-v0"
FRAMES = 200
OPTIONS = f"""
    --collector.total_frames {FRAMES} --collector.init_random_frames 100
    --collector.learning_starts 100 --replay.batch_size 32 --network.num_cells [16,16]
    --evaluation.interval 100 --evaluation.episodes 2 --logging.interval 50
    --logging.progress false --loss.parameter_mask true --seed 3
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("user")
    (folder / "my_tasks_of_old.py").write_text(MODULE)
    return folder


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    """The directory of a run that the user started in the folder of their module."""
    path = os.pathsep.join([str(RECIPES.parent), str(folder)])
    done = processes.run(
        RECIPES / "hybrid_sac.py",
        *("--env.id", ID, *OPTIONS.split(), "--env.kwargs.log", str(folder / "actions.jsonl")),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    assert "Runner-v0" in done.stdout
    (found,) = (folder / "runs" / "hybrid_sac").glob("*/*")
    return found


@pytest.fixture
def module(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(folder))
    yield
    del gym.registry["Runner-v0"]
    del sys.modules["my_tasks_of_old"]


def received(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "actions.jsonl").read_text().splitlines()]


def test_the_environment_gets_its_own_structure_in_its_own_bounds(run: Path, folder: Path) -> None:
    actions = received(folder)
    assert len(actions) > FRAMES  # evaluations as well
    for action in actions:
        assert action["types"] == ["tuple", "int", "tuple", *["ndarray"] * 3]
        assert action["arrays"] == [["float32", [1]]] * 3
        assert action["inside"]
    assert {action["index"] for action in actions} == {0, 1, 2}
    # The first 100 are random: uniform in each parameter's own box.
    values = np.array([action["values"] for action in actions[:100]])
    for i, maximum in enumerate([30, 720, 430]):
        assert 0 <= values[:, i].min() < 0.1 * maximum
        assert 0.9 * maximum < values[:, i].max() <= maximum
        assert values[:, i].mean() == pytest.approx(maximum / 2, rel=0.3)


def test_the_run_directory_is_complete(run: Path) -> None:
    info = json.loads((run / "run.json").read_text())
    assert (info["status"], info["frames"], info["updates"]) == ("finished", FRAMES, FRAMES - 100)
    assert info["task"] == ID
    assert info["target_entropy_continuous"] == pytest.approx(3 * math.log(0.2), abs=1e-5)
    assert ID in (run / "config.yaml").read_text()
    metrics = pd.read_csv(run / "metrics.csv")
    assert list(metrics["frames"]) == [50, 100, 150, 200]
    losses = metrics[["loss_actor", "loss_qvalue", "loss_alpha"]].iloc[2:]
    assert np.isfinite(losses.to_numpy(float)).all()
    episodes = pd.read_csv(run / "episodes.csv")
    assert len(episodes) > 5
    assert (episodes["return"] > 0).all()
    assert list(pd.read_csv(run / "evaluations.csv")["frames"]) == [100, 200]
    assert [path.name for path in (run / "checkpoints").glob("*200*")]


@pytest.mark.usefixtures("module")
def test_the_policy_acts_in_the_environment(run: Path, folder: Path) -> None:
    with closing_env(make_env(ID, seed=0)) as env:
        assert parameter_mask(env).int().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
        episode = env.rollout(30, load_policy(run))
    assert 5 <= len(episode) <= 30  # at most a fifth of the way in a step
    # The observation with its step counter, scaled to [0, 1].
    assert episode["observation"].shape[-1] == 10
    steps = episode["next", "observation"][:, -1] * 199
    assert torch.equal(steps.round(), torch.arange(1.0, len(episode) + 1))
    progress = episode["next", "reward"].flatten()
    index = episode["action", "discrete"]
    taken = episode["action", "continuous"].gather(-1, index.unsqueeze(-1)).flatten()
    torch.testing.assert_close(progress, 0.2 * (taken + 1) / 2, rtol=1e-4, atol=1e-5)
