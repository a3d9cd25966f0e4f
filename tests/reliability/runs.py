"""Short runs of the SAC recipe as processes of their own, and how to compare what they leave."""

import io
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import safetensors.torch
import torch

from rlkit_sac.runs.checkpoint import Checkpoint, step_folders
from tests import processes
from tests.recipes.loading import run_recipe

ROOT = Path(__file__).parents[2]
SHORT = shlex.split("""
    --collector.init_random_frames 60 --collector.learning_starts 60 --replay.batch_size 16
    --replay.capacity 250 --network.num_cells [8,8] --evaluation.interval 110
    --evaluation.episodes 1 --logging.interval 70 --logging.progress false
    --checkpoint.interval 100 --update.utd_ratio 0.5 --
""")  # what comes after `--` may override
#: Options for short runs of each recipe.
RECIPES = {
    **dict.fromkeys(("sac", "discrete_sac", "hybrid_sac", "value_sac"), SHORT),
    "kl_prior_sac": [*SHORT, "--prior.kind", "same_action"],
    "acer": shlex.split("""
        --collector.t_max 5 --collector.init_random_frames 60 --env.num_envs 2 --replay.batch_size 4
        --replay.capacity 250
        --update.n_times_replay 2 --update.replay_start_size 75 --network.num_cells [8,8]
        --evaluation.interval 110 --evaluation.episodes 1 --logging.interval 70
        --logging.progress false --checkpoint.interval 100 --
    """),
}
TIME_COLUMNS = ["seconds", "frames_per_second"]


SAC = ROOT / "recipes" / "sac.py"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def start(folder: Path, *arguments: str) -> processes.Process:
    """The recipe as a process of its own, with ``folder`` as its working directory."""
    return processes.Process(SAC, *arguments, cwd=folder, env=ENVIRONMENT)


def run(folder: Path, *arguments: str, recipe: str = "sac") -> subprocess.CompletedProcess[str]:
    """Run a recipe to its end."""
    script = ROOT / "recipes" / f"{recipe}.py"
    return processes.run(script, *arguments, cwd=folder, env=ENVIRONMENT)


def train(folder: Path, *arguments: str, recipe: str = "sac") -> Path:
    """The run directory of a run to its end, in this process."""
    return run_recipe(recipe, *arguments, "--logging.dir", str(folder / "runs"))


def only_run(folder: Path) -> Path:
    """The one run directory under ``folder/runs``."""
    (info,) = folder.glob("runs/*/*/*/run.json")
    return info.parent


def newest(run_path: Path) -> Checkpoint:
    """The manifest of the newest checkpoint."""
    return Checkpoint.read(list(step_folders(run_path / "checkpoints").values())[-1])


def replay_of(run_path: Path, manifest: Checkpoint) -> dict[str, torch.Tensor]:
    """The transitions of a checkpoint in the order in which they were stored, the newest last."""
    parts = [
        safetensors.torch.load((run_path / "replay" / name).read_bytes())
        for name in manifest.segments
    ]
    return {key: torch.cat([part[key] for part in parts]) for key in parts[0]}


def table(run_path: Path, name: str) -> str:
    """A CSV file without its columns of wall-clock time, every cell as it was written."""
    frame = pd.read_csv(run_path / f"{name}.csv", dtype=str, keep_default_na=False)
    buffer = io.StringIO()
    frame.drop(columns=TIME_COLUMNS, errors="ignore").to_csv(buffer, index=False)
    return buffer.getvalue()


def assert_same_run(first: Path, second: Path, *, capacity: int = 250) -> None:
    """Equal to the last bit: state, replay and tables, but for times."""
    manifests = newest(first), newest(second)
    assert manifests[0].frames == manifests[1].frames
    states = [manifest.state() for manifest in manifests]
    for state in states:
        del state["run"]  # checksums of the tables, with their times
        del state["log"]["seconds"], state["log"]["last_row"]
    assert_equal(states[0], states[1], "state")
    rows = [
        {key: value[-capacity:] for key, value in replay_of(path, manifest).items()}
        for path, manifest in zip((first, second), manifests, strict=True)
    ]
    assert_equal(rows[0], rows[1], "replay")
    for name in ("metrics", "episodes", "evaluations"):
        if (first / f"{name}.csv").exists() or (second / f"{name}.csv").exists():
            assert table(first, name) == table(second, name)


def assert_equal(a: Any, b: Any, path: str) -> None:
    """Equal at every depth, tensors and arrays to the last bit."""
    assert type(a) is type(b), path
    if isinstance(a, dict):
        assert a.keys() == b.keys(), path
        for key in a:
            assert_equal(a[key], b[key], f"{path}/{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), path
        for index, (left, right) in enumerate(zip(a, b, strict=True)):
            assert_equal(left, right, f"{path}/{index}")
    elif hasattr(a, "shape"):
        left, right = torch.as_tensor(a), torch.as_tensor(b)
        assert (left.dtype, left.shape) == (right.dtype, right.shape), path
        assert left.numpy().tobytes() == right.numpy().tobytes(), path
    else:
        assert a == b or (a != a and b != b), path
