"""What works on a GPU, and how fast, in a few minutes.

    python recipes/benchmarks/gpu.py
    python recipes/benchmarks/gpu.py --device cpu --frames 1200 --num_envs 16 --rounds 2

The tests of devices; one update of each loss, eager, compiled and as a CUDA graph; a short run of
each recipe with CUDA graphs; frames per second on HalfCheetah-v5 here and with TorchRL's parts;
training in many environments at once. A part that fails is reported, and the others go on. Each row
of the CSV file is one figure.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from timing import describe_machine, take_turns
from update import LossName, UpdateBenchmarkConfig, make_loss, make_update, random_batch

import rlkit_sac
from rlkit_sac.config import PositiveInt, UpdateConfig
from rlkit_sac.runs import run_recipe

BENCHMARKS = Path(__file__).parent
TESTS = BENCHMARKS.parents[1] / "tests"
DEVICE_TESTS = ("updates/test_cuda_graphs.py", "reliability/test_devices.py")
LOSSES: tuple[LossName, ...] = ("continuous", "discrete", "hybrid")
TABLES = ("metrics", "evaluations")
RECIPES = {
    "sac": "Pendulum-v1",
    "kl_prior_sac": "Pendulum-v1",
    "value_sac": "Pendulum-v1",
    "discrete_sac": "CartPole-v1",
    "hybrid_sac": "Platform-v0",
    "acer": "CartPole-v1",
}


@dataclass
class GPUConfig:
    """What is run, and on which device."""

    device: str = "cuda"
    """Device to compute on."""
    frames: PositiveInt = 3_000
    """Frames of each run."""
    num_envs: PositiveInt = 4_096
    """Environments of a batched simulator."""
    rounds: PositiveInt = 30
    """Rounds in which updates are timed."""
    seconds: PositiveInt = 480
    """Time limit; parts that would begin later are left out."""
    output: str = "gpu.csv"
    """CSV file with a row for each figure."""


def main(config: GPUConfig) -> None:
    """Run every part, print its figures, and write the table after each."""
    is_cuda = torch.device(config.device).type == "cuda"
    print(torch.cuda.get_device_name(config.device) if is_cuda else describe_machine(1))
    start, rows = time.monotonic(), list[dict[str, Any]]()
    for name, part in make_parts(config, graphs=is_cuda).items():
        began = time.monotonic()
        if began - start > config.seconds:
            figures: Mapping[str, Any] = {"left out for time": None}
        else:
            try:
                figures = part()
            except Exception as error:  # whatever a device does
                figures = {f"{type(error).__name__}: {error}"[-500:]: None}
        seconds = time.monotonic() - began
        rows += [{"part": name, "figure": key, "value": x} for key, x in figures.items()]
        print(f"{name} ({seconds:.0f} s): {', '.join(f'{k} {x}' for k, x in figures.items())}")
        pd.DataFrame(rows).to_csv(config.output, index=False)


def make_parts(config: GPUConfig, *, graphs: bool) -> dict[str, Callable[[], Mapping[str, Any]]]:
    """Return the functions that make the figures, by name, the most important ones first."""
    parts: dict[str, Callable[[], Mapping[str, Any]]] = {"tests": run_tests}
    for loss in LOSSES:
        parts[f"update {loss}"] = partial(time_updates, loss, config, graphs=graphs)
    short = {"evaluation.interval": config.frames, "evaluation.episodes": 1}
    for recipe, task in RECIPES.items():
        graph = {"compile": True, "update.cuda_graph": graphs, "update.matmul_precision": "auto"}
        parts[recipe] = partial(train, recipe, config, {"env.id": task, **graph, **short})
    parts["HalfCheetah-v5"] = partial(compare_training, config)
    simulators: dict[str, dict[str, Any]] = {"PendulumEnv": {}}
    if importlib.util.find_spec("brax") is not None:
        simulators["BraxEnv"] = {"env_name": "ant"}
    for name, kwargs in simulators.items():
        options = {
            "env.id": f"torchrl.envs:{name}",
            "env.kwargs": kwargs,
            "env.num_envs": config.num_envs,
            "env.max_episode_steps": 200,
            "collector.total_frames": 200 * config.num_envs,
            "evaluation.interval": 200 * config.num_envs,
            "update.utd_ratio": 1 / config.num_envs,
        }
        parts[f"{name} x {config.num_envs}"] = partial(train, "sac", config, options)
    return parts


def run_tests() -> dict[str, str]:
    """Run the tests of devices, where the repository has them."""
    command = [sys.executable, "-m", "pytest", *(str(TESTS / name) for name in DEVICE_TESTS)]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    return {"result": done.stdout.strip().splitlines()[-1]}


def time_updates(loss: LossName, config: GPUConfig, *, graphs: bool) -> dict[str, float]:
    """Time one update in milliseconds: eager, compiled, and as a CUDA graph."""
    sizes, device = UpdateBenchmarkConfig(), torch.device(config.device)
    batch = random_batch(loss, sizes.batch_size).to(device)

    def contestant(compile_from: int | None, *, cuda_graph: bool = False) -> Callable[[], object]:
        options = UpdateConfig(cuda_graph=cuda_graph)
        update = make_update(make_loss(loss, sizes).to(device), options, compile_from=compile_from)

        def run() -> None:
            update(batch)
            if device.type == "cuda":
                torch.cuda.synchronize(device)

        return run

    contestants = {"eager ms": contestant(None), "compiled ms": contestant(1)}
    if graphs:
        contestants["CUDA graph ms"] = contestant(1, cuda_graph=True)
    rounds = take_turns(contestants, rounds=config.rounds, calls=10, warm_up=20)
    return rounds[list(contestants)].median().round(3).to_dict()


def train(recipe: str, config: GPUConfig, options: dict[str, Any]) -> dict[str, float]:
    """Run a recipe, and return the frames per second of its last metrics, and its last return."""
    common = {"collector.total_frames": config.frames, "device": config.device}
    with tempfile.TemporaryDirectory() as folder:
        quiet = {"logging.dir": folder, "logging.progress": False}
        run = rlkit_sac.train(recipe, **common | quiet | options)
        metrics, evaluations = (pd.read_csv(run.path / f"{name}.csv") for name in TABLES)
    return {
        "frames per second": round(float(metrics["frames_per_second"].iloc[-1])),
        "return": round(float(evaluations["return_mean"].iloc[-1]), 1),
    }


def compare_training(config: GPUConfig) -> dict[str, float]:
    """Time training here and with TorchRL's parts, in frames per second."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "speed.csv"
        command = [sys.executable, str(BENCHMARKS / "speed.py")]
        command += ["--systems", "[rlkit_sac, torchrl]"]
        command += ["--device", config.device, "--rounds", "1", "--output", str(table)]
        command += ["--frames", str(config.frames), "--warmup", str(config.frames)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        seconds = pd.read_csv(table).set_index("system")["seconds"]
    return {f"{name} frames per second": round(config.frames / x) for name, x in seconds.items()}


if __name__ == "__main__":
    # An update that falls back to another way must not be timed in place of the one asked for.
    warnings.filterwarnings("error", message="(?s).*(run uncompiled|run without a CUDA graph)")
    run_recipe(main, GPUConfig)
