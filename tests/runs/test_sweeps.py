"""Sweeps: search spaces, the study they share, and trials as real processes."""

from __future__ import annotations

import csv
import json
import os
import signal
import sqlite3
from pathlib import Path

import pytest
import yaml

optuna = pytest.importorskip("optuna")


from rlkit_sac.analysis import load_runs  # noqa: E402
from rlkit_sac.config.options import config_errors  # noqa: E402
from rlkit_sac.errors import ConfigError  # noqa: E402
from rlkit_sac.runs import RunConfig  # noqa: E402
from rlkit_sac.runs.sweep import configure, read_space  # noqa: E402
from tests.recipes.loading import RECIPES, config_class  # noqa: E402
from tests.runs.scripted import copy_recipe, start, wait_for  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning"),
    pytest.mark.filterwarnings("ignore:Heartbeat of storage is supposed to be used"),
]
TRAINED = ["acer", "discrete_sac", "hybrid_sac", "kl_prior_sac", "sac", "value_sac"]


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "spaces").mkdir()
    (tmp_path / "spaces" / "recipe.yaml").write_text("value: {low: 0, high: 2}")
    return copy_recipe(tmp_path)


def trials(folder: Path, study: str = "*") -> dict[int, dict[str, str]]:
    (file,) = folder.glob(f"runs/sweeps/{study}/trials.csv")
    with file.open(newline="") as opened:
        return {int(row["trial"]): row for row in csv.DictReader(opened)}


def forget_heartbeats(folder: Path) -> None:
    """As if the trials of a killed process had shown no life for long."""
    (file,) = folder.rglob("study.db")
    with sqlite3.connect(file, timeout=60) as database:
        database.execute("UPDATE trial_heartbeats SET heartbeat = '2020-01-01 00:00:00'")


@pytest.mark.parametrize("name", TRAINED)
def test_each_recipe_comes_with_a_space_of_its_options(name: str) -> None:
    config = config_class(name)()
    space = read_space(RECIPES / "spaces" / f"{name}.yaml", config)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(20):
        trial = study.ask(dict(space))
        assert config_errors(configure(config, trial.params)) == []
    text = (RECIPES / "spaces" / f"{name}.yaml").read_text()
    assert text.startswith(f"# rlkit-sac sweep {name} ")
    if name == "hybrid_sac":  # its first line has a configuration
        values = yaml.safe_load((RECIPES / "configs" / name / "platform.yaml").read_text())
        assert values["replay"]["batch_size"] == config.replay.batch_size
        assert values["network"]["num_cells"] == config.network.num_cells


def test_all_that_is_wrong_with_a_space_is_said_at_once(tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    file.write_text(
        "update.lr_actr: {low: 1e-4, high: 1e-2}\n"
        "update:\n"
        "  lr_qvalue: {low: 0, high: 1e-2}\n"
        "  lr_alpha: {low: 1e-2, high: 1e-4}\n"
        "loss.gamma: {low: 0.5, high: 0.9}\n"
        "replay.batch_size: {choices: [256, many]}\n"
        "network.num_cells: {low: 8, high: 16}\n"
        "network.activation: relu\n"
        "replay.capacity: {choices: [100, 1000000]}\n"
        "seed: {low: 0, high: 9}\n"
    )
    with pytest.raises(ConfigError) as error:
        read_space(file, RunConfig())
    lines = [line.removeprefix(f"{file}:") for line in str(error.value).splitlines()]
    assert lines == [
        " update.lr_actr: unknown option; did you mean update.lr_actor?",
        " update.lr_qvalue: must be greater than 0, got 0.0",
        " update.lr_alpha: `low <= high` must hold, but got (low=0.01, high=0.0001).",
        " loss.gamma: must hold the value of the configuration itself, 0.99, which the first "
        "trial runs",
        " replay.batch_size: must be a valid integer, got 'many'",
        " network.num_cells: expected {choices: [...]}, got {'low': 8, 'high': 16}",
        " network.activation: expected {choices: [...]}, got 'relu'",
        " replay.capacity: must be at least batch_size (256), got 100",
        " seed: is the same in all trials: take it out",
    ]


@pytest.mark.slow
def test_an_interrupted_sweep_goes_on_with_the_draws_of_one_that_was_not(
    tmp_path: Path, recipe: Path
) -> None:
    options = ["--trials", "3", "--pause", "0.2"]
    with start(recipe, tmp_path, *options, "--study", "stopped") as process:
        wait_for(lambda: list(tmp_path.glob("runs/sweeps/stopped/trial_0001/*/*/*/*.csv")))
        os.kill(process.pid, signal.SIGTERM)
        _, errors = process.communicate()
    assert process.returncode == 143, errors
    for study in ("stopped", "whole"):
        done = start(recipe, tmp_path, *options, "--study", study).finish()
        assert done.returncode == 0, done.stderr
    stopped, whole = (list(trials(tmp_path, study).values()) for study in ("stopped", "whole"))
    assert [row["state"] for row in stopped] == ["complete", "fail", "complete", "complete"]
    values = [row["value"] for row in stopped if row["state"] == "complete"]
    assert values == [row["value"] for row in whole]


@pytest.mark.slow
def test_trials_of_a_killed_process_begin_anew(tmp_path: Path, recipe: Path) -> None:
    options = ["--trials", "2", "--pause", "0.2"]
    with start(recipe, tmp_path, *options) as process:
        wait_for(lambda: list(tmp_path.glob("runs/sweeps/*/trial_0001/*/*/*/*.csv")))
        process.kill()
        process.wait()
    (run,) = tmp_path.glob("runs/sweeps/*/trial_0001/*/*/*")
    wait_for(lambda: json.loads((run / "run.json").read_text())["status"] == "interrupted")
    forget_heartbeats(tmp_path)
    done = start(recipe, tmp_path, *options).finish()
    assert done.returncode == 0, done.stderr
    states = [row["state"] for row in trials(tmp_path).values()]
    assert states == ["complete", "fail", "complete"]


@pytest.mark.slow
def test_a_bad_trial_is_pruned(tmp_path: Path, recipe: Path) -> None:
    (tmp_path / "space.yaml").write_text("value: {choices: [1.0, 0.5, 0.2, 0.1]}")
    options = ["--trials", "10", "--jobs", "2", "--pause", "0.5", "--space", "space.yaml"]
    done = start(recipe, tmp_path, *options).finish()
    assert done.returncode == 0, done.stderr
    rows = trials(tmp_path)
    ended = {row["state"]: row for row in rows.values()}
    assert ended.keys() == {"complete", "pruned"}
    assert int(ended["pruned"]["frames"]) < 100
    assert float(ended["pruned"]["value"]) < 1.0
    folder = tmp_path / "runs" / "sweeps" / "recipe-Pendulum-v1"
    assert yaml.safe_load((folder / "best.yaml").read_text())["value"] == 1.0


def test_a_trial_is_a_run_in_the_folder_of_its_sweep(tmp_path: Path, recipe: Path) -> None:
    done = start(recipe, tmp_path, "--trials", "1", "--value", "0.5").finish()
    assert done.returncode == 0, done.stderr
    (row,) = trials(tmp_path).values()
    assert (row["state"], row["value"], row["frames"]) == ("complete", "0.5", "100")
    folder = tmp_path / "runs" / "sweeps" / "recipe-Pendulum-v1"
    data = load_runs(folder)
    assert set(data["run"]) == {str(tmp_path / row["run"])}
    assert set(data["return_mean"]) == {0.5}
    assert yaml.safe_load((folder / "best.yaml").read_text())["logging"]["dir"] == "runs"
