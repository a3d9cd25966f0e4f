"""Sweeps: search spaces, the study they share, and trials as real processes."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

optuna = pytest.importorskip("optuna")


from rlkit_sac.analysis import load_runs  # noqa: E402
from rlkit_sac.config.conditions import config_errors  # noqa: E402
from rlkit_sac.errors import ConfigError  # noqa: E402
from rlkit_sac.runs import RunConfig  # noqa: E402
from rlkit_sac.runs.several.options import SeveralOptions  # noqa: E402
from rlkit_sac.runs.several.results import write_results  # noqa: E402
from rlkit_sac.runs.several.space import configure, read_space  # noqa: E402
from rlkit_sac.runs.several.sweep import ask, open_study  # noqa: E402
from tests.processes import Process  # noqa: E402
from tests.recipes.loading import RECIPES, load_recipe  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning"),
    pytest.mark.filterwarnings("ignore:Heartbeat of storage is supposed to be used"),
]
ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
CONFIGS = {
    "acer": "ACERConfig",
    "discrete_sac": "DiscreteSACConfig",
    "hybrid_sac": "HybridSACConfig",
    "kl_prior_sac": "KLPriorSACConfig",
    "sac": "SACConfig",
    "value_sac": "ValueSACConfig",
}
SPACE = """
update.lr_actor: {low: 1e-4, high: 1e-2, log: true}
replay.batch_size: {low: 16, high: 64, step: 16}
network.num_cells: {choices: [[8], [16]]}
"""
SAC = [
    *("--collector.init_random_frames", "100", "--collector.learning_starts", "100"),
    *("--replay.batch_size", "16", "--network.num_cells", "[8]", "--compile", "false"),
    *("--env.max_episode_steps", "50", "--evaluation.episodes", "1", "--device", "cpu"),
    *("--evaluation.interval", "100", "--space", "space.yaml"),
]
RECIPE = '''
import time
from dataclasses import dataclass, field
from pathlib import Path

from rlkit_sac.config import EnvConfig, EvaluationConfig, FramesConfig, LoggingConfig, Seed
from rlkit_sac.errors import ConfigError, RunError
from rlkit_sac.runs import RunDirectory, run_recipe
from rlkit_sac.runs.stop import deferred_signals


@dataclass
class Config:
    """Write evaluations of a given value, or fail."""

    env: EnvConfig = field(default_factory=EnvConfig)
    collector: FramesConfig = field(default_factory=lambda: FramesConfig(total_frames=100))
    evaluation: EvaluationConfig = field(default_factory=lambda: EvaluationConfig(interval=10))
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    seed: Seed = 0
    """Seed."""
    resume: str | None = None
    """Run to resume."""
    value: float = 1.0
    """Mean return of all evaluations."""
    fault: str = "none"
    """What goes wrong."""
    pause: float = 0.0
    """Seconds between two evaluations."""


def main(config: Config) -> Path:
    if config.fault == "config":
        raise ConfigError("the replay buffer does not fit")
    with RunDirectory.create(
        config, recipe="test", task="Task", seed=config.seed, root=config.logging.dir
    ) as run:
        run.begin()
        with deferred_signals() as stop:
            for frames in range(10, 101, 10):
                run.write("evaluations", {"frames": frames, "return_mean": config.value})
                if config.fault == "run":
                    raise RunError(f"reward is NaN at frame {frames}")
                time.sleep(config.pause)
                stop.obey()
    return run.path


if __name__ == "__main__":
    run_recipe(main, Config)
'''


@pytest.fixture
def space(tmp_path: Path) -> Path:
    file = tmp_path / "space.yaml"
    file.write_text(SPACE)
    return file


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "spaces").mkdir()
    (tmp_path / "spaces" / "recipe.yaml").write_text("value: {low: 0, high: 2}")
    file = tmp_path / "recipe.py"
    file.write_text(RECIPE)
    return file


@dataclass
class Sweep:
    """A study, and what it is asked with."""

    config: RunConfig
    space: dict[str, Any]
    study: optuna.Study
    folder: Path

    def ask(self, most: int) -> optuna.Trial | None:
        return ask(self.study, self.space, self.config.seed, most, self.folder)


def make_sweep(folder: Path, space: Path, storage: str | None = None, **options: Any) -> Sweep:
    config = RunConfig(**options)
    config.replay.batch_size, config.network.num_cells = 16, [8]
    found = read_space(space, config)
    study = open_study(
        folder / "sweep", "sweep", config, found, SeveralOptions(trials=2, storage=storage)
    )
    return Sweep(config, found, study, folder / "sweep")


def start(script: Path, folder: Path, *argv: str) -> Process:
    return Process(script, *argv, cwd=folder, env=ENVIRONMENT | {"TMPDIR": str(folder)})


def trials(folder: Path) -> dict[int, dict[str, str]]:
    (file,) = folder.glob("runs/sweeps/*/trials.csv")
    with file.open(newline="") as opened:
        return {int(row["trial"]): row for row in csv.DictReader(opened)}


def forget_heartbeats(folder: Path) -> None:
    """As if the trials of a killed process had shown no life for long."""
    (file,) = folder.rglob("study.db")
    with sqlite3.connect(file, timeout=60) as database:
        database.execute("UPDATE trial_heartbeats SET heartbeat = '2020-01-01 00:00:00'")


@pytest.mark.parametrize("name", CONFIGS)
def test_each_recipe_comes_with_a_space_of_its_options(name: str) -> None:
    config = getattr(load_recipe(name), CONFIGS[name])()
    space = read_space(RECIPES / "spaces" / f"{name}.yaml", config)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(20):
        trial = study.ask(dict(space))
        assert config_errors(configure(config, trial.params), checks=[]) == []
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


def test_an_interrupted_sweep_goes_on_with_the_draws_of_one_that_was_not(
    tmp_path: Path, space: Path
) -> None:
    whole, stopped = make_sweep(tmp_path / "whole", space), make_sweep(tmp_path / "stopped", space)
    for sweep in (whole, stopped):
        first = sweep.ask(3)
        assert first is not None
        sweep.study._storage.record_heartbeat(first._trial_id)
    forget_heartbeats(tmp_path / "stopped")
    again = stopped.ask(3)
    assert again is not None
    assert again.params == first.params
    for _ in range(2):
        drawn, same = whole.ask(3), stopped.ask(3)
        assert drawn is not None
        assert same is not None
        assert drawn.params == same.params


@pytest.mark.filterwarnings("ignore:Attempting to set identical:UserWarning")
def test_a_sweep_leaves_a_table_figures_and_the_best_options(tmp_path: Path, space: Path) -> None:
    sweep = make_sweep(tmp_path, space)
    for value in (1.0, 2.0):
        trial = sweep.ask(2)
        assert trial is not None
        sweep.study.tell(trial, value)
    assert write_results(sweep.study, sweep.config, sweep.folder)
    with (sweep.folder / "trials.csv").open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert [(row["state"], row["value"]) for row in rows] == [
        ("complete", "1.0"),
        ("complete", "2.0"),
    ]
    best = yaml.safe_load((sweep.folder / "best.yaml").read_text())
    assert best["update"]["lr_actor"] == trial.params["update.lr_actor"]
    assert best["update"]["lr_actor"] == float(rows[1]["update.lr_actor"])
    assert (sweep.folder / "history.png").stat().st_size > 1000


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


@pytest.mark.slow
def test_a_sweep_of_sac(tmp_path: Path, space: Path) -> None:
    options = [*SAC, "--collector.total_frames", "200", "--trials", "2", "--jobs", "2"]
    done = start(RECIPES / "sac.py", tmp_path, *options).finish()
    assert done.returncode == 0, done.stderr
    rows = trials(tmp_path)
    assert [rows[0]["state"], rows[1]["state"]] == ["complete", "complete"]
    folder = tmp_path / "runs" / "sweeps" / "sac-Pendulum-v1"
    data = load_runs(folder, config=True)
    last = data[data["frames"] == 200].set_index("run")["return_mean"]
    for row in rows.values():
        assert float(row["value"]) == last[str(tmp_path / row["run"])]
    assert set(data["update.lr_actor"]) == {float(row["update.lr_actor"]) for row in rows.values()}
    best = max(rows.values(), key=lambda row: float(row["value"]))
    config = load_recipe("sac").SACConfig
    from rlkit_sac.config import parse_config

    found = parse_config(config, ["--config", str(folder / "best.yaml")])
    assert found.update.lr_actor == float(best["update.lr_actor"])
    assert found.network.num_cells == json.loads(best["network.num_cells"])
    assert found.collector.total_frames == 200
    assert found.logging.dir == "runs"
    assert (folder / "history.png").stat().st_size > 1000
