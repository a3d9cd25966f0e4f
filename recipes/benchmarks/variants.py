"""Runs that differ in one thing: the parts of ACER, and ways to improve a cloned policy.

    python recipes/benchmarks/variants.py --study acer_parts
    python recipes/benchmarks/variants.py --study fine_tuning --seeds 0

Evaluations go to docs/data/<study>.csv, and docs/images/<study>.png is made from that file.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import pandas as pd
import torch
from timing import describe_machine
from torchrl.envs import ExplorationType, set_exploration_type

from rlkit_sac.analysis import load_runs, plot_learning_curves
from rlkit_sac.config import PositiveInt, parse_config
from rlkit_sac.envs import make_env
from rlkit_sac.runs import load_policy

RECIPES = Path(__file__).parents[1]
DOCS = Path(__file__).parents[2] / "docs"


class Study(NamedTuple):
    """What is compared, as options of each task and as recipe and options of each variant."""

    tasks: Mapping[str, str]
    variants: Mapping[str, str]


#: The demonstrations are of a run of this seed, after so many frames.
TEACHERS = {"HalfCheetah-v5": 20_000, "Hopper-v5": 35_000}
TEACHER_SEED = 10
START = "--prior.run cloned --config fine_tune"
ACTOR = "--warm_start.run cloned --warm_start.modules [actor] --network.log_std_min -2"
DATA = "--replay.prior_data demonstrations --replay.prior_share 0.5"
STUDIES = {
    "acer_parts": Study(
        {
            "CartPole-v1": "--config default --collector.total_frames 40000 "
            "--evaluation.interval 2000",
            "Pendulum-v1": "--config pendulum",
        },
        {
            "ACER": "acer",
            "without trust region": "acer --loss.use_trust_region false",
            "without truncation": "acer --loss.truncation_threshold null",
        },
    ),
    "fine_tuning": Study(
        dict.fromkeys(TEACHERS, "--collector.total_frames 50000"),
        {
            "KL prior": f"kl_prior_sac {START}",
            "KL prior, wide": "kl_prior_sac --config fine_tune --prior.run cloned_wide "
            "--network.log_std_min -0.5 --update.lr_alpha 0.003 "
            "--loss.schedules '{target_kld_per_dim: {2000: 0.02, 10000: 3}}'",
            "KL prior and demonstrations": f"kl_prior_sac {START} {DATA}",
            "demonstrations": f"sac {DATA}",
            "SAC from the clone": f"sac {ACTOR} --update.actor_starts 3000 "
            "--collector.init_random_frames 0 --loss.alpha_init 0.001",
            "SAC from nothing": "sac",
        },
    ),
}


@dataclass
class VariantsConfig:
    """Which runs are made."""

    study: Literal["acer_parts", "fine_tuning"] = "acer_parts"
    """What is compared."""
    seeds: str = "0-4"
    """Seeds of the runs."""
    jobs: PositiveInt = 2
    """Runs at a time."""


def run(recipe: str, *options: str, folder: str) -> None:
    """Run a recipe in a folder, with one thread."""
    command = [sys.executable, str(RECIPES / f"{recipe}.py"), *options, "--num_threads", "1"]
    subprocess.run(command, cwd=folder, check=True)


def clone_a_teacher(task: str, folder: str) -> None:
    """Train a policy, record 20 of its episodes, and clone it from them, in a folder."""
    frames = ["--collector.total_frames", str(TEACHERS[task])]
    seed = ["--seed", str(TEACHER_SEED), "--logging.dir", "teacher"]
    run("sac", "--env.id", task, *frames, *seed, folder=folder)
    (teacher,) = Path(folder).glob("teacher/*/*/*")
    env, policy = make_env(task), load_policy(teacher)
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        episodes = torch.cat([env.rollout(1_000, policy) for _ in range(20)])
    episodes.save(Path(folder, "demonstrations"))
    for output, log_std_min in {"cloned": "-2", "cloned_wide": "-0.5"}.items():
        options = ["--normalize_observations", "true", "--log_std_min", log_std_min]
        run("clone", "--env.id", task, "--output", output, *options, folder=folder)


def main(config: VariantsConfig) -> None:
    """Make all runs, then the figure."""
    print(describe_machine(1))
    study, found = STUDIES[config.study], []
    seeds = ["--seeds", config.seeds, "--jobs", str(config.jobs)]
    for task, options in study.tasks.items():
        with tempfile.TemporaryDirectory() as folder:
            if config.study == "fine_tuning":
                clone_a_teacher(task, folder)
            for variant, words in study.variants.items():
                recipe, *more = shlex.split(words)
                last = [*more, *seeds, "--logging.dir", variant]
                run(recipe, "--env.id", task, *options.split(), *last, folder=folder)
                found.append(load_runs(Path(folder, variant)).assign(variant=variant))
    table = DOCS / "data" / f"{config.study}.csv"
    columns = ["task", "seed", "frames", "return_mean", "variant"]
    pd.concat(found)[columns].to_csv(table, index=False, lineterminator="\n")
    draw(config.study)


def draw(study: str) -> None:
    """Draw the figure of a study from its table."""
    data = pd.read_csv(DOCS / "data" / f"{study}.csv")
    data["run"] = data["task"] + data["variant"] + data["seed"].astype(str)
    figure = plot_learning_curves(data, by="variant")
    path = DOCS / "images" / f"{study}.png"
    figure.savefig(path, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    main(parse_config(VariantsConfig))
