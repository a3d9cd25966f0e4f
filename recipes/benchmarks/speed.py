"""How many frames a second an algorithm trains, here and in other systems.

    python recipes/benchmarks/speed.py
    python recipes/benchmarks/speed.py --systems '[rlkit_sac, sb3]' --num_threads 2
    python recipes/benchmarks/speed.py --task Pendulum-v1 --wall true --frames 10000
    python recipes/benchmarks/speed.py --venv.sbx path/to/environment
    python recipes/benchmarks/speed.py --systems '[acer, pfrl]' --frames 6000

The systems take turns, each run in a process of its own on as many cores as it has threads. The
clock starts after ``--warmup`` frames, when random actions and compilation are over; with
``--wall true`` it runs from the command to its end, whatever happens in between. All systems of
soft actor-critic have the settings of `peers/peer.py`, the two of actor-critic with experience
replay, ``acer`` (ours) and ``pfrl``, those of `peers/acer_settings.py`. Ratios are those of the
rounds, each with its own load of the machine; the table shows their medians with 95 % bootstrap
intervals.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args

import pandas as pd
from timing import describe_machine, load_averages, median, processor

from rlkit_sac.config import PositiveInt
from rlkit_sac.config.options import NonNegativeInt
from rlkit_sac.errors import ConfigError, RunError
from rlkit_sac.runs import run_recipe

PEERS = Path(__file__).parent / "peers"
SACSystem = Literal["rlkit_sac", "sb3", "sbx", "cleanrl", "torchrl"]
ACERSystem = Literal["acer", "pfrl"]
SystemName = Literal[SACSystem, ACERSystem]
SAC_SYSTEMS: tuple[SACSystem, ...] = get_args(SACSystem)


# The script of each in the folder of the peers, and the module without which it cannot run.
SYSTEMS = {
    "rlkit_sac": ("recipe_sac.py", "rlkit_sac"),
    "sb3": ("sb3_sac.py", "stable_baselines3"),
    "sbx": ("sbx_sac.py", "sbx"),
    "cleanrl": ("cleanrl_sac.py", "torch"),
    "torchrl": ("torchrl_sac.py", "torchrl"),
    "acer": ("recipe_acer.py", "rlkit_sac"),
    "pfrl": ("pfrl_acer.py", "pfrl"),
}


@dataclass
class SpeedConfig:
    """Who is timed, doing what, how often."""

    systems: list[SystemName] = field(default_factory=lambda: list(SAC_SYSTEMS))
    """Who takes turns; the others are compared with the first."""
    task: str | None = None
    """Gymnasium id of a task with continuous actions, or with discrete ones for acer and pfrl; null
    for HalfCheetah-v5 or CartPole-v1."""
    num_threads: PositiveInt = 1
    """CPU threads of each system, and the cores it may use."""
    device: str = "cpu"
    """Device of rlkit_sac and torchrl; the others run on a CPU."""
    rounds: PositiveInt = 5
    """Rounds, in which each system runs once."""
    frames: PositiveInt = 3_000
    """Frames that are timed."""
    warmup: NonNegativeInt = 3_000
    """Frames before them, in which ours compile their updates: recipes/sac.py at frame 2,000."""
    wall: bool = False
    """Time the whole command, without warmup and with nothing compiled before."""
    venv: dict[str, str] = field(default_factory=dict)
    """Virtual environments of systems that this one does not have, by their names."""
    output: str = "runs/speed.csv"
    """New CSV file, with one row for each run."""

    @property
    def played_task(self) -> str:
        """The task, or the one that the systems' algorithm is timed on."""
        return self.task or ("HalfCheetah-v5" if self.systems[0] in SAC_SYSTEMS else "CartPole-v1")

    def errors(self) -> list[tuple[str, str]]:
        """List what cannot be measured."""
        found = [
            ("venv", f"must name systems ({', '.join(SYSTEMS)}), got '{name}'")
            for name in self.venv
            if name not in SYSTEMS
        ]
        if not self.systems or len(set(self.systems)) < len(self.systems):
            found.append(("systems", f"must be some, all different, got {self.systems}"))
        if 0 < len(set(self.systems) & set(SAC_SYSTEMS)) < len(set(self.systems)):
            found.append(("systems", "acer and pfrl can only be compared with each other"))
        cores = len(usable_cores())
        if self.num_threads > cores:
            found.append(("num_threads", f"must be at most {cores}, the cores of this process"))
        if Path(self.output).exists():
            found.append(("output", f"{self.output} exists: remove it or name another file"))
        return found


def main(config: SpeedConfig) -> None:
    """Run the systems in turns, write each run down as it ends, and print a table."""
    systems = [name for name in config.systems if is_there(name, config)]
    if not systems:
        raise ConfigError("none of the systems is installed: pip install 'rlkit_sac[benchmarks]'")
    print(describe_machine(config.num_threads))
    print(f"load averages at the start: {load_averages()}")
    Path(config.output).parent.mkdir(parents=True, exist_ok=True)
    rows = []
    for index, system in product(range(config.rounds), systems):
        rows.append(timed_run(system, index, config))
        pd.DataFrame(rows).to_csv(config.output, index=False)
        print(f"round {index}: {system} {rows[-1]['frames_per_second']:.1f} frames/s")
    print(summary(pd.DataFrame(rows)).to_string(index=False, float_format="{:.1f}".format))
    print(f"load averages at the end: {load_averages()}")
    print(f"runs: {config.output}")


def is_there(system: str, config: SpeedConfig) -> bool:
    """Whether a system can run; says why not."""
    _, module = SYSTEMS[system]
    python = interpreter(system, config)
    script = "import importlib.util, sys; sys.exit(not importlib.util.find_spec(sys.argv[1]))"
    if not Path(python).exists():
        print(f"{system} is left out: there is no {python}")
    elif subprocess.run([python, "-c", script, module]).returncode:
        print(
            f"{system} is left out: {python} cannot import {module}; pip install "
            f"'rlkit_sac[benchmarks]', or name an environment that can: --venv.{system} PATH"
        )
    else:
        return True
    return False


def timed_run(system: str, index: int, config: SpeedConfig) -> dict[str, Any]:
    """Run a system once in a new process, and return its row of the table.

    Raises:
        RunError: if the process fails.
    """
    warmup = 0 if config.wall else config.warmup
    script, _ = SYSTEMS[system]
    command = [interpreter(system, config), str(PEERS / script), "--task", config.played_task]
    command += ["--frames", str(config.frames), "--warmup", str(warmup)]
    command += ["--num_threads", str(config.num_threads), "--seed", str(index)]
    command += ["--device", config.device]
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment(config, folder),
            capture_output=True,
            text=True,
            preexec_fn=partial(stay_on, cores_of(index, config.num_threads)),
        )
        wall = time.perf_counter() - start
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RunError(f"{system} failed in round {index}: {lines[-1]}")
    reported = json.loads(done.stdout.splitlines()[-1])
    seconds = wall if config.wall else reported["seconds"]
    # The processes that compile are not counted in.
    per_cpu_second = "" if config.wall else config.frames / reported["cpu_seconds"]
    return {
        "round": index,
        "system": system,
        "task": config.played_task,
        "threads": config.num_threads,
        "wall": config.wall,
        "frames": config.frames,
        "seconds": seconds,
        "frames_per_second": config.frames / seconds,
        "frames_per_cpu_second": per_cpu_second,
        "load_before": before,
        "load_after": os.getloadavg()[0],
        "versions": reported["versions"],
        "processor": processor(),
    }


def interpreter(system: str, config: SpeedConfig) -> str:
    """The Python that runs a system: of its own environment if one was named, else this one."""
    if system in config.venv:
        return str(Path(config.venv[system]).absolute() / "bin" / "python")
    return sys.executable


def environment(config: SpeedConfig, folder: str) -> dict[str, str]:
    """Environment variables of a run: its threads, and where it finds nothing compiled before."""
    count = str(config.num_threads)
    variables = {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "JAX_PLATFORMS": "cpu"}
    if config.num_threads == 1:
        variables["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    if config.wall:
        variables["TORCHINDUCTOR_CACHE_DIR"] = folder
    return os.environ | variables


def usable_cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def cores_of(index: int, count: int) -> set[int]:
    """The cores of a round, the same for all its systems, others in the next."""
    cores = usable_cores()
    return {cores[(index + offset) % len(cores)] for offset in range(count)}


def stay_on(cores: set[int]) -> None:
    """Keep this process and its threads on some cores, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


def summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Frames a second of each system, and those of the first one divided by them.

    Args:
        runs: one row for each run, as in the CSV file.
    """
    rates = runs.pivot(index="round", columns="system", values="frames_per_second")
    first, *others = runs["system"].unique()
    table = runs.groupby("system", sort=False)[["seconds", "frames_per_second"]].median()
    if not runs["wall"].any():
        table["frames/CPU s"] = runs.groupby("system")["frames_per_cpu_second"].median()
    table["slowest"], table["fastest"] = rates.min(), rates.max()
    ratios = {system: str(median(rates[first] / rates[system])) for system in others}
    table[f"{first} / system"] = pd.Series({first: "", **ratios})
    return table.rename(columns={"frames_per_second": "frames/s"}).reset_index()


if __name__ == "__main__":
    run_recipe(main, SpeedConfig)
