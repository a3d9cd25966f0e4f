"""Learning from data: returns by frames, with and without transitions from before.

    python recipes/benchmarks/prior_data.py
    python recipes/benchmarks/prior_data.py --parts [hopper] --seeds [0]

platform: hybrid SAC, with the policy cloned from 50 episodes of a trained one as its prior, and
without. hopper: SAC with half of each batch from the replay of a trained run, and without. The
trained runs are made first. Each run has one thread; docs/prior_data.md has the results.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torchrl.envs import ExplorationType, set_exploration_type

from rlkit_sac import train
from rlkit_sac.config import parse_config
from rlkit_sac.envs import closing_env, make_env

EPISODES = 50
OPTIONS = {"num_threads": 1, "logging.progress": False}


@dataclass
class PriorDataConfig:
    """Which runs are made."""

    parts: list[str] = field(default_factory=lambda: ["platform", "hopper"])
    """platform, hopper, or both."""
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2])
    """Seeds of the runs with and without."""
    output: str = "prior_data.csv"
    """Evaluations of all runs."""


def main(config: PriorDataConfig) -> None:
    """Print the returns of each run, and write them."""
    tables = []
    with tempfile.TemporaryDirectory() as folder:
        for part in config.parts:
            recipe, options, variants = globals()[part](Path(folder))
            for seed in config.seeds:
                for variant, changes in variants.items():
                    run = train(recipe, seed=seed, **options, **changes)
                    table = run.evaluations[["frames", "return_mean"]]
                    tables.append(table.assign(task=part, variant=variant, seed=seed))
                    print(part, variant, seed, table.round(2).to_numpy().tolist(), flush=True)
    pd.concat(tables).to_csv(config.output, index=False)


def platform(folder: Path) -> tuple[str, dict[str, Any], dict[str, dict[str, Any]]]:
    """Recipe, options and variants of the hybrid task, once there is a cloned policy."""
    options = {**OPTIONS, "logging.dir": folder, "config": "platform_fast"}
    expert = train("hybrid_sac", seed=100, **options, **{"collector.total_frames": 6_000})
    policy = expert.policy("best")
    with (
        closing_env(make_env("Platform-v0")) as env,
        set_exploration_type(ExplorationType.DETERMINISTIC),
        torch.no_grad(),
    ):
        env.set_seed(1_000)
        episodes = [env.rollout(1_000, policy) for _ in range(EPISODES)]
    torch.cat(episodes).save(folder / "demonstrations")
    cloning = {"data": folder / "demonstrations", "output": folder / "cloned", "updates": 2_000}
    cloned = str(train("clone", env="Platform-v0", **cloning).path)
    short = {"collector.init_random_frames": 100, "collector.learning_starts": 100}
    prior = {"prior.kind": "policy", "prior.run": cloned}
    evaluation = {"collector.total_frames": 4_000, "evaluation.interval": 250}
    variants = {"without": {}, "with": prior, "with, 100 random frames": prior | short}
    return "hybrid_sac", options | evaluation, variants


def hopper(folder: Path) -> tuple[str, dict[str, Any], dict[str, dict[str, Any]]]:
    """Recipe, options and variants of the continuous task, once there is a trained run."""
    options = {
        **OPTIONS,
        "logging.dir": folder,
        "config": "fast",
        "env.id": "Hopper-v5",
        "evaluation.episodes": 5,
    }
    source = train("sac", seed=100, **options)
    half = {"replay.prior_data": str(source.path), "replay.prior_share": 0.5}
    evaluation = {"collector.total_frames": 60_000, "evaluation.interval": 2_500}
    return "sac", options | evaluation, {"without": {}, "with": half}


if __name__ == "__main__":
    main(parse_config(PriorDataConfig))
