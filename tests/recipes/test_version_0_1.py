"""Runs of version 0.1, stored beside this file with what version 0.1 made of them when resumed."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlkit_sac.analysis import load_runs
from rlkit_sac.envs import closing_env, make_env
from rlkit_sac.runs import evaluate, load_policy
from tests.recipes.running import Recipe

STORED = Path(__file__).parent / "version_0_1"
RECIPES = {
    "sac": (Recipe("sac", "SACConfig"), "Pendulum-v1", 250, 350),
    "acer": (Recipe("acer", "ACERConfig"), "CartPole-v1", 320, 640),
}


@pytest.fixture(params=RECIPES)
def stored(request, tmp_path: Path) -> Path:
    """A copy of a stored run, as a run directory of that recipe and task."""
    _, task, *_ = RECIPES[request.param]
    path = tmp_path / "runs" / request.param / task / "old-seed0"
    shutil.copytree(STORED / request.param, path, ignore=shutil.ignore_patterns("continued.csv"))
    return path


def test_a_resumed_run_goes_on_as_in_version_0_1(stored: Path, monkeypatch) -> None:
    name = stored.parents[1].name
    recipe, _, before, total = RECIPES[name]
    monkeypatch.chdir(stored.parents[3])
    options = ["--collector.total_frames", str(total), "--device", "cpu", "--logging.progress"]
    assert recipe.run("--resume", str(stored), *options, "false") == stored.resolve()
    found = pd.read_csv(stored / "metrics.csv")
    wanted = pd.read_csv(STORED / name / "continued.csv")
    assert list(found) == list(wanted)
    assert (wanted["frames"] > before).sum() >= 2
    numbers = wanted.columns.difference(["seconds", "frames_per_second"])
    # Other versions of PyTorch and NumPy round differently.
    np.testing.assert_allclose(found[numbers], wanted[numbers], rtol=1e-3, atol=1e-4)
    assert load_policy(stored)


def test_a_policy_loads_and_acts(stored: Path) -> None:
    _, task, *_ = RECIPES[stored.parents[1].name]
    policy = load_policy(stored)
    with closing_env(make_env(task)) as env:
        assert np.isfinite(evaluate(policy, env, episodes=1, seed=0).returns).all()


def test_a_run_is_analyzed(stored: Path) -> None:
    runs = load_runs(stored.parents[3] / "runs", table="metrics")
    last = RECIPES[stored.parents[1].name][2]
    assert runs["frames"].iloc[-1] == last
    assert np.isfinite(runs["entropy"].iloc[-1])
