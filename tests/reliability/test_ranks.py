"""Runs of several ranks: what they share, what each has for itself, and what they survive."""

import json
import os
import signal
import time
from pathlib import Path

import pandas as pd
import pytest

from rlkit_sac.runs.checkpoint import step_folders
from tests.reliability.ranks import RANKS, finish, run_ranks, states, torchrun
from tests.reliability.runs import RECIPES, SHORT, assert_equal, assert_same_run, only_run

NORMALIZED = ("--normalization.observations", "true", "--normalization.rewards", "true")


def assert_one_run(run: Path, frames: int) -> None:
    """One run of two ranks, with one policy and two streams of experience."""
    first, second = states(run)
    own = "reward_normalizer.returns"  # of the environments of each rank
    losses = [{k: v for k, v in each["loss"].items() if k != own} for each in (first, second)]
    assert_equal(*losses, "loss")
    assert_equal(first["update"], second["update"], "update")
    assert first["update"]["count"] > 0
    assert first["log"]["frames"] == second["log"]["frames"] == frames
    assert first["collector"]["frames"] == second["collector"]["frames"] == frames / RANKS
    assert not first["random"]["torch"].equal(second["random"]["torch"])
    information = json.loads((run / "run.json").read_text())
    assert (information["status"], information["frames"]) == ("finished", frames)
    assert information["ranks"] == RANKS
    assert pd.read_csv(run / "metrics.csv")["frames"].iloc[-1] == frames
    assert not list(run.glob("ranks/**/*.csv"))
    replays = [sorted((each / "replay").iterdir()) for each in (run, run / "ranks" / "1")]
    names = [{file.name: file.read_bytes() for file in each} for each in replays]
    shared = names[0].keys() & names[1].keys()
    assert shared
    assert all(names[0][name] != names[1][name] for name in shared)


@pytest.fixture(scope="module")
def sac_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sac")
    return run_ranks(folder, "sac", *SHORT, *NORMALIZED, "--collector.total_frames", "160")


def test_ranks_share_a_policy_and_have_streams_of_their_own(sac_run: Path) -> None:
    assert_one_run(sac_run, 160)
    statistics = states(sac_run)[1]["loss"]["observation_normalizer.statistics.count"]
    assert int(statistics) == 160
    assert pd.read_csv(sac_run / "metrics.csv")["updates"].iloc[-1] == 50


LATE_SIGNAL = """
import signal
from datetime import timedelta
from importlib import import_module

import torch

from rlkit_sac.runs.machine import learner_group, rank
from tests.recipes.loading import load_recipe

training_run = import_module("rlkit_sac.runs.run")
agree, calls = training_run.max_over_ranks, []


def max_over_ranks(*numbers):
    # An evaluation of a slow task may take longer than half an hour, the default.
    backend = learner_group()._get_backend(torch.device("cpu"))
    assert backend.options._timeout >= timedelta(hours=12)
    found = agree(*numbers)
    calls.append(numbers)
    if rank() == 1 and len(calls) == 40:  # in the moment after ranks have agreed to go on
        signal.raise_signal(signal.SIGTERM)
    return found


training_run.max_over_ranks = max_over_ranks
recipe = load_recipe("sac")
recipe.runs.run_recipe(recipe.main, recipe.SACConfig)
"""


@pytest.mark.slow
def test_a_signal_that_one_rank_gets_late_ends_all_at_the_same_step(tmp_path: Path) -> None:
    script = tmp_path / "late.py"
    script.write_text(LATE_SIGNAL)
    options = [*SHORT, "--collector.total_frames", "400", "--checkpoint.interval", "1000"]
    run = run_ranks(tmp_path, str(script.with_suffix("")), *options, code=143)
    first, second = states(run)
    assert first["log"]["frames"] == second["log"]["frames"] < 400


def wait_for_checkpoint(run_folder: Path, frames: int) -> Path:
    """The run directory, as soon as rank 0 has a checkpoint of this frame or a later one."""
    while True:
        for info in run_folder.glob("runs/*/*/*/run.json"):
            if any(at >= frames for at in step_folders(info.parent / "checkpoints")):
                return info.parent
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_runs_under_torchrun(recipe: str, tmp_path: Path) -> None:
    options = [*RECIPES[recipe], "--collector.total_frames", "200"]
    finish(torchrun(tmp_path, recipe, *options))
    assert_one_run(only_run(tmp_path), 200)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["sac", "acer"])
def test_a_stopped_run_goes_on_exactly(recipe: str, tmp_path: Path) -> None:
    options = [*RECIPES[recipe], "--collector.total_frames", "700", "--compile", "false"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    finish(torchrun(whole, recipe, *options))
    process = torchrun(parts, recipe, *options)
    run = wait_for_checkpoint(parts, 200)
    process.send_signal(signal.SIGTERM)
    finish(process, code=1)
    information = json.loads((run / "run.json").read_text())
    assert information["status"] == "interrupted"
    first, second = states(run)
    assert first["log"]["frames"] == second["log"]["frames"] == information["frames"] < 700
    finish(torchrun(parts, recipe, "--resume", str(run), "--collector.total_frames", "700"))
    assert_same_run(only_run(whole), run, capacity=250)
    for one, other in zip(states(only_run(whole)), states(run), strict=True):
        for part in ("loss", "update", "random", "replay"):
            assert_equal(one[part], other[part], part)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", ["false", "true"])
def test_a_killed_rank_is_restarted(compiled: str, tmp_path: Path) -> None:
    options = [*SHORT, "--collector.total_frames", "900", "--compile", compiled]
    process = torchrun(tmp_path, "sac", *options, restarts=1)
    run = wait_for_checkpoint(tmp_path, 200)
    os.kill(pid_of_rank(process.pid, 1), signal.SIGKILL)
    output = finish(process)
    assert "resuming" in output
    assert only_run(tmp_path) == run
    information = json.loads((run / "run.json").read_text())
    assert information["resumed_at"] >= 200
    assert len(information["sessions"]) == 1
    assert_one_run(run, 900)


def pid_of_rank(parent: int, rank: int) -> int:
    """The process that ``torchrun`` started for a rank."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    for child in children:
        if f"\0RANK={rank}\0" in Path(f"/proc/{child}/environ").read_text():
            return int(child)
    raise AssertionError(f"no process of rank {rank} among {children}")
