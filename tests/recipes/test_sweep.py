"""Sweeps: search spaces, and trials that are runs of recipes."""

import json
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import rlkit_sac
from rlkit_sac.config.options import config_errors
from rlkit_sac.config.read import from_yaml, read_yaml, set_options
from rlkit_sac.errors import ConfigError
from tests.processes import Process
from tests.recipes.loading import RECIPES, config_class, load_recipe
from tests.recipes.running import QUICK

optuna = pytest.importorskip("optuna")
recipe = load_recipe("sweep")
pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
OPTIONS = QUICK | {"evaluation.interval": 60}
SPACE = "update.lr_actor: {low: 1e-4, high: 1e-2, log: true}\nreplay.batch_size: {choices: [8, 16]}"


def sweep(**options: Any) -> pd.DataFrame:
    """The trials of a sweep in this process."""
    Path("space.yaml").write_text(SPACE)
    settings = {"space": "space.yaml", "options": OPTIONS, "trials": 2} | options
    return pd.read_csv(recipe.main(recipe.SweepConfig(**settings)) / "trials.csv")


@pytest.mark.parametrize("file", sorted(RECIPES.glob("spaces/*.yaml")), ids=lambda file: file.stem)
def test_a_space_has_valid_values_of_its_recipe(file: Path) -> None:
    space = {key: values for key, values, *_ in read_yaml(file, recipe.SweepConfig())}
    assert file.read_text().startswith(f"# rlkit-sac train sweep --recipe {file.stem} ")
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(20):
        trial = study.ask()
        config = config_class(file.stem)()
        drawn = {key: recipe.draw(trial, key, values) for key, values in space.items()}
        assert set_options([config], drawn)[1] == config_errors(config) == []


def test_trials_are_runs_and_the_same_call_goes_on(workplace: Path) -> None:
    sweep(trials=1)
    table = sweep()
    assert table["state"].tolist() == ["COMPLETE"] * 2
    for path, value in zip(table["user_attrs_run"], table["value"], strict=True):
        assert rlkit_sac.Run(path).evaluations["return_mean"].iloc[-1] == value
    pd.testing.assert_frame_equal(sweep(), table)
    options = config_class("sac")()
    assert set_options([options], {"config": "runs/sweep/best.yaml"})[1] == []
    best = table.loc[table["value"].idxmax()]
    assert options.update.lr_actor == best["params_update.lr_actor"]
    assert options.replay.batch_size == best["params_replay.batch_size"]
    assert options.collector.total_frames == OPTIONS["collector.total_frames"]
    with pytest.raises(ConfigError, match="has another recipe, options or space"):
        sweep(options=OPTIONS | {"seed": 1})


def test_a_bad_trial_ends_early_and_one_that_fails_is_noted(workplace: Path) -> None:
    study = optuna.create_study(
        study_name="sweep", storage="sqlite:///study.db", direction="maximize"
    )
    for _ in range(5):  # of a task whose returns are below zero
        trial = study.ask()
        for key, values in from_yaml(SPACE).items():
            recipe.draw(trial, key, values)
        trial.report(0.0, 60)
        study.tell(trial, 0.0)
    table = sweep(storage="sqlite:///study.db", trials=6)
    assert table["state"].tolist() == ["COMPLETE"] * 5 + ["PRUNED"]
    assert rlkit_sac.Run(table["user_attrs_run"].iloc[-1]).evaluations["frames"].tolist() == [60]
    diverging = OPTIONS | {"update.lr_qvalue": 1e30, "collector.total_frames": 400}
    with pytest.raises(rlkit_sac.errors.RunError, match="no trial was completed"):
        sweep(folder="failing", options=diverging, trials=1)
    assert "nan" in pd.read_csv("failing/trials.csv")["user_attrs_error"].iloc[0].lower()


def test_a_space_that_names_no_option_is_refused_by_the_recipe(workplace: Path) -> None:
    Path("wrong.yaml").write_text("update.lr_actr: {low: 1e-4, high: 1e-2}")
    with pytest.raises(ConfigError, match=r"update.lr_actr: unknown option; did you mean"):
        sweep(space="wrong.yaml")
    assert not Path("runs/sweep/trials").exists()
    with pytest.raises(ConfigError, match=r"nowhere.yaml cannot be read"):
        sweep(space="nowhere.yaml")


@pytest.mark.slow
def test_the_trial_of_a_killed_process_begins_anew_in_another(workplace: Path) -> None:
    Path("space.yaml").write_text(SPACE)
    words = ["--space", "space.yaml", "--trials", "3", "--pruner", "none", "--heartbeat", "1"]

    def start() -> Process:
        options = ["--options", json.dumps(OPTIONS)]
        return Process(RECIPES / "sweep.py", *words, *options, cwd=workplace)

    with start() as killed:
        end = time.monotonic() + 300
        while not list(workplace.glob("runs/sweep/trials/*/*/*/run.json")):
            assert time.monotonic() < end
            time.sleep(0.05)
        with start() as other:
            killed.kill()
            _, errors = other.communicate()
    assert other.returncode == 0, errors
    table = pd.read_csv("runs/sweep/trials.csv")
    assert table["state"].value_counts().to_dict() == {"COMPLETE": 3, "FAIL": 1}
    drawn = table.filter(like="params_")
    failed = table["state"] == "FAIL"
    assert drawn[~failed].eq(drawn[failed].iloc[0]).all(axis=1).sum() == 1
