"""Short runs of a recipe in this process, and what each recipe promises of them."""

import json
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from rlkit_sac.envs import make_env
from rlkit_sac.runs import evaluate, evaluation_seed, load_policy, read_config, run_recipe
from tests.recipes import loading
from tests.recipes.loading import config_class, load_recipe
from tests.reliability.runs import assert_same_run, newest, table

SHORT = shlex.split("""
    --collector.total_frames 120 --collector.init_random_frames 50 --collector.learning_starts 95
    --replay.batch_size 16 --network.num_cells [8,8] --evaluation.interval 60
    --evaluation.episodes 2 --logging.interval 40 --logging.progress false --
""")  # what comes after `--` may override
#: Options of a short run from Python.
QUICK: dict[str, Any] = {
    "collector.total_frames": 120,
    "collector.learning_starts": 100,
    "replay.batch_size": 16,
    "evaluation.episodes": 1,
    "env.max_episode_steps": 40,
    "network.num_cells": [8],
    "logging.progress": False,
    "compile": False,
}
#: Short episodes, for tasks of 200 steps.
BRIEF = ("--env.max_episode_steps", "40")
ONE_EPISODE = shlex.split("--evaluation.interval 120 --evaluation.episodes 1")
EARLY = shlex.split("--collector.init_random_frames 20 --collector.learning_starts 25")


def options(text: str) -> list[str]:
    """The arguments of a command line whose values may have spaces."""
    return [
        part
        for option in text.split("--")[1:]
        for part in ("--" + option.strip()).split(" ", maxsplit=1)
    ]


def each_case(cases: Mapping[str, Any], *, slow: Collection[str] = ()) -> pytest.MarkDecorator:
    """A test for each ``case``, some of them slow."""
    marks = {name: [pytest.mark.slow] * (name in slow) for name in cases}
    found = [pytest.param(case, id=name, marks=marks[name]) for name, case in cases.items()]
    return pytest.mark.parametrize("case", found)


def assert_policy_repeats_the_last_evaluation(run: Path) -> None:
    """The saved policy, loaded and evaluated on an environment of the run's own options."""
    config = yaml.safe_load((run / "config.yaml").read_text())
    options = {name: config["env"][name] for name in ("kwargs", "frame_stack", "max_episode_steps")}
    env = make_env(config["env"]["id"], **options)
    last = json.loads(pd.read_csv(run / "evaluations.csv")["returns"].iloc[-1])
    seed = evaluation_seed(config["seed"])
    found = evaluate(load_policy(run), env, episodes=len(last), seed=seed)
    assert found.returns.tolist() == last


@dataclass(frozen=True)
class Recipe:
    """A recipe by the name of its file.

    Attributes:
        short: options of a short run of 120 frames.
        loss: the column of a loss that each update has.
        early: options with which a run of 30 frames has updates already.
    """

    name: str
    short: Sequence[str] = tuple(SHORT)
    loss: str = "loss_qvalue"
    early: Sequence[str] = tuple(EARLY)

    def config(self, *arguments: str) -> Any:
        return read_config(config_class(self.name), arguments)

    def run(self, *arguments: str) -> Path:
        """The directory of a run."""
        return loading.run_recipe(self.name, *arguments).resolve()

    def train(self, *arguments: str) -> Path:
        """The directory of a short run."""
        return self.run(*self.short, *arguments)

    def stop(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
        """Exit code and message of a command line that fails."""
        with pytest.raises(SystemExit) as stop:
            run_recipe(load_recipe(self.name).main, config_class(self.name), arguments)
        return stop.value.code, capsys.readouterr().err

    def assert_refused(
        self, capsys: pytest.CaptureFixture[str], workplace: Path, arguments: str, message: str
    ) -> None:
        """Stopped by one line, with nothing created."""
        before = set(workplace.iterdir())
        code, error = self.stop(capsys, *options(arguments))
        assert code == 2
        (line,) = error.strip().splitlines()
        assert line.startswith("error: ")
        assert message in line, line
        assert {path for path in workplace.iterdir() if path.name != "__pycache__"} == before

    def assert_trains(self, variant: str) -> Path:
        """A short run with other options has finite losses and a policy that loads."""
        run = self.train(*ONE_EPISODE, *options(variant))
        metrics = pd.read_csv(run / "metrics.csv")
        assert np.isfinite(metrics[self.loss].iloc[-1])
        assert metrics["frames"].iloc[-1] == 120
        assert load_policy(run)
        return run

    def assert_leaves(
        self, workplace: Path, task: str, columns: Sequence[str], *arguments: str, updates: int = 25
    ) -> dict[str, Any]:
        """A short run is finished, with numbers in columns and its policy; what run.json says."""
        run = self.train(*arguments)
        assert run.parent == workplace / "runs" / self.name / task
        metrics = pd.read_csv(run / "metrics.csv")
        assert np.isfinite(metrics[list(columns)].iloc[-1].astype(float)).all()
        assert_policy_repeats_the_last_evaluation(run)
        info = json.loads((run / "run.json").read_text())
        assert (info["status"], info["frames"], info["updates"]) == ("finished", 120, updates)
        return info | {"columns": list(metrics.columns), "policy": load_policy(run)}

    def assert_seed_decides(self) -> None:
        """The same seed gives the same tables, another one others."""
        first, second, other = (self.train(*ONE_EPISODE, "--seed", seed) for seed in "112")
        for name in ("metrics", "episodes", "evaluations"):
            assert table(first, name) == table(second, name)
            assert table(first, name) != table(other, name)

    def assert_evaluation_leaves_training_alone(self) -> None:
        often = self.train("--evaluation.interval", "60", "--evaluation.episodes", "1")
        seldom = self.train("--evaluation.interval", "120", "--evaluation.episodes", "3")
        for name in ("metrics", "episodes"):
            assert table(often, name) == table(seldom, name)

    def assert_resumes_exactly(
        self,
        capsys: pytest.CaptureFixture[str],
        half: int,
        *arguments: str,
        capacity: int | None = None,
    ) -> None:
        """A run that stops and goes on is the run that never stopped, to the last bit."""
        total = f"--collector.total_frames={2 * half}"
        early = (*self.early, f"--evaluation.interval={2 * half}", "--evaluation.episodes=1")
        early += arguments
        whole = self.train(*early, total)
        parts = self.train(*early, f"--collector.total_frames={half}")
        assert newest(parts).frames == half
        self.run("--resume", str(parts), total)
        assert "not exactly" not in capsys.readouterr().out
        info = json.loads((parts / "run.json").read_text())
        assert (info["status"], info["frames"], info["exact"]) == ("finished", 2 * half, True)
        assert_same_run(whole, parts, capacity=capacity or 2 * half)


SHORT_ACER = shlex.split("""
    --collector.total_frames 120 --collector.init_random_frames 0 --collector.t_max 5
    --env.num_envs 2 --replay.batch_size 4
    --update.n_times_replay 2 --update.replay_start_size 50 --network.num_cells [8,8]
    --evaluation.interval 60 --evaluation.episodes 2 --logging.interval 40
    --logging.progress false --
""")
ACER = Recipe(
    "acer", tuple(SHORT_ACER), loss="loss_critic", early=("--update.replay_start_size", "20")
)
SAC, VALUE, PRIOR = (
    Recipe(name, (*SHORT, *BRIEF)) for name in ("sac", "value_sac", "kl_prior_sac")
)
DISCRETE, HYBRID = Recipe("discrete_sac"), Recipe("hybrid_sac")
