"""What ACER's trust region and its truncation of importance weights are worth.

    python recipes/benchmarks/acer_parts.py
    python recipes/benchmarks/acer_parts.py --seeds 0,1 --jobs 1

Runs of recipes/acer.py with and without each part, `jobs` at a time. Evaluations go to
docs/data/acer_parts.csv, and the figure of docs/acer.md is made from that file.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pandas as pd
from timing import describe_machine

from rlkit_sac.analysis import load_runs, plot_learning_curves
from rlkit_sac.config import PositiveInt, parse_config

RECIPE = Path(__file__).parents[1] / "acer.py"
DOCS = Path(__file__).parents[2] / "docs"
TABLE = DOCS / "data" / "acer_parts.csv"
TASKS = {
    "CartPole-v1": "--config default --collector.total_frames 40000 --evaluation.interval 2000",
    "Pendulum-v1": "--config pendulum",
}
VARIANTS = {
    "ACER": "",
    "without trust region": "--loss.use_trust_region false",
    "without truncation": "--loss.truncation_threshold null",
}


@dataclass
class PartsConfig:
    """Which runs are made."""

    seeds: str = "0-4"
    """Seeds of the runs."""
    jobs: PositiveInt = 2
    """Runs at a time."""


def train(task: str, variant: str, config: PartsConfig) -> pd.DataFrame:
    """Train with all seeds, and return the evaluations.

    Args:
        task: one of the tasks.
        variant: one of the variants.
        config: the seeds.
    """
    with tempfile.TemporaryDirectory() as folder:
        options = [*TASKS[task].split(), *VARIANTS[variant].split(), "--num_threads", "1"]
        options += ["--seeds", config.seeds, "--jobs", str(config.jobs), "--logging.dir", folder]
        subprocess.run([sys.executable, RECIPE, "--env.id", task, *options], check=True)
        found = load_runs(folder)
    return found[["task", "seed", "frames", "return_mean"]].assign(variant=variant)


def draw() -> None:
    """Draw the figure from the table."""
    data = pd.read_csv(TABLE)
    data["run"] = data["task"] + data["variant"] + data["seed"].astype(str)
    figure = plot_learning_curves(data, by="variant")
    figure.savefig(DOCS / "images" / "acer_parts.png", dpi=150, metadata={"Software": None})


def main(config: PartsConfig) -> None:
    """Make all runs, then the figure."""
    print(describe_machine(1))
    found = [train(*each, config) for each in product(TASKS, VARIANTS)]
    pd.concat(found).to_csv(TABLE, index=False, lineterminator="\n")
    draw()


if __name__ == "__main__":
    main(parse_config(PartsConfig))
