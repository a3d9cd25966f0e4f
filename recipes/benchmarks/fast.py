"""What each part of the defaults is worth: runs that differ in one of them.

    python recipes/benchmarks/fast.py
    python recipes/benchmarks/fast.py --tasks [Hopper-v5] --variants [fast,published] --seeds [0,1]
    python recipes/benchmarks/fast.py --frames 100000 --interval 5000 --output fast.csv
    python recipes/benchmarks/fast.py --variants '[fast, sbx.SAC]' --jobs 1 --output seconds.csv

Each run is recipes/sac.py with one thread in a process of its own, `jobs` of them at a time. The
lines show the return of the deterministic policy by frames, and the CPU time of the whole process,
compilation and evaluations included. In the CSV file, seconds count from the start of the process;
those of our runs include what comes after the last evaluation. docs/fast.md has the results.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from timing import describe_machine, load_averages

from rlkit_sac.config import PositiveInt, parse_config

RECIPE = Path(__file__).parents[1] / "sac.py"
PEERS = Path(__file__).parent / "peers" / "stable_baselines.py"
RATES = ("lr_actor", "lr_qvalue", "lr_alpha")
#: Soft actor-critic as published, by option; the others begin with the defaults.
PUBLISHED: dict[str, Any] = {"config": "published", "loss.target_entropy": "neg_dim"}
PUBLISHED |= {f"update.{name}": 3e-4 for name in RATES}
#: Plain values in place of atoms, which need bounded rewards.
VALUES: dict[str, Any] = {"network.critic_atoms": "null"}
#: What each variant changes in the defaults; names joined by + change both.
VARIANTS: dict[str, dict[str, Any]] = {
    "fast": {},
    "no layer norm": {"network.critic_layer_norm": "false"},
    "raw observations": {"normalization.observations": "false"},
    "values": VALUES,
    "raw rewards": VALUES | {"normalization.rewards": "false"},
    "divisor std": VALUES | {"normalization.rewards": "true"},
    "batch 256": {"replay.batch_size": 256},
    "alpha from 1": {"loss.alpha_init": 1},
    "target -A": {"loss.target_entropy": "neg_dim"},
    "delay 1": {"update.periods": "{actor: 1, alpha: 1}"},
    "actor 6e-4": {"update.lr_actor": 6e-4},
    "tau .005": {"update.target_update_tau": 0.005},
    "float32": {"update.matmul_precision": "auto"},
}


@dataclass
class FastConfig:
    """Which runs are made."""

    tasks: list[str] = field(default_factory=lambda: ["HalfCheetah-v5", "Hopper-v5"])
    """Ids of the tasks."""
    variants: list[str] = field(default_factory=lambda: ["published", *VARIANTS])
    """Names of variants, two of them joined by +; classes with the interface of Stable-Baselines3
    by module and name, such as sb3_contrib.TQC."""
    seeds: list[int] = field(default_factory=lambda: [0])
    """Seeds of the runs."""
    frames: PositiveInt = 30_000
    """Frames of a run."""
    interval: PositiveInt = 2_500
    """Frames between two evaluations."""
    jobs: PositiveInt = 2
    """Runs at a time."""
    limit: PositiveInt = 600
    """Seconds of a run of a class by name."""
    peers: str = sys.executable
    """The Python of such runs."""
    cold: bool = False
    """Whether each run compiles with an empty cache."""
    output: str | None = None
    """CSV file for all evaluations; null writes none."""


def options(variant: str) -> dict[str, Any]:
    """The options of a run, by name."""
    if variant == "published":
        return PUBLISHED
    found: dict[str, Any] = {}
    for part in variant.split("+"):
        found |= VARIANTS[part]
    return found


def run(task: str, variant: str, seed: int, config: FastConfig) -> pd.DataFrame:
    """Train once; returns the evaluations and the CPU time of the process."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.time()
        command = command_of(task, variant, seed, config, folder)
        cache = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/compiled"} if config.cold else {}
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ | cache)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"{task}, {variant}, seed {seed}: see the error above")
        (table,) = Path(folder).rglob("evaluations.csv")
        found = pd.read_csv(table)[["frames", "return_mean", "seconds"]]
    if "." not in variant.split()[0]:
        found["seconds"] += time.time() - start - found["seconds"].iloc[-1]
    cpu = usage.ru_utime + usage.ru_stime
    curve = " ".join(f"{row.frames / 1000:g}k {row.return_mean:.0f}" for row in found.itertuples())
    print(f"{task}, {variant}, seed {seed}: {cpu:.0f} s of CPU time; {curve}", flush=True)
    return found.assign(task=task, variant=variant, seed=seed, cpu=cpu)


def command_of(task: str, variant: str, seed: int, config: FastConfig, folder: str) -> list[str]:
    """The command of a run, which writes evaluations.csv below a folder."""
    algorithm, *flags = variant.split()
    if "." in algorithm:
        given: dict[str, Any] = {"task": task, "seed": seed, "frames": config.frames}
        given |= {"interval": config.interval, "limit": config.limit}
        given |= {"output": f"{folder}/evaluations.csv", "start": time.time()}
        start = [config.peers, str(PEERS), algorithm, *flags]
    else:
        given = options(variant) | {
            **{"env.id": task, "seed": seed, "collector.total_frames": config.frames},
            **{"evaluation.interval": config.interval, "evaluation.episodes": 5},
            **{"num_threads": 1, "logging.progress": "false", "logging.dir": folder},
        }
        start = [sys.executable, str(RECIPE)]
    return [*start, *(word for name, value in given.items() for word in (f"--{name}", str(value)))]


def main(config: FastConfig) -> None:
    """Make all runs, and write their evaluations."""
    print(describe_machine(1), f"load averages: {load_averages()}", sep="\n")
    runs = product(config.seeds, config.tasks, config.variants)
    with ThreadPoolExecutor(config.jobs) as pool:
        found = list(pool.map(lambda each: run(each[1], each[2], each[0], config), runs))
    if config.output is not None:
        pd.concat(found).to_csv(config.output, index=False)


if __name__ == "__main__":
    main(parse_config(FastConfig))
