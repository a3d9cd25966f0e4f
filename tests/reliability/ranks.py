"""Recipes with several ranks: under ``torchrun``, or as processes that get what it gives them."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch.distributed import TCPStore

from rlkit_sac.runs.checkpoint import Checkpoint, step_folders
from tests import processes
from tests.reliability.runs import ENVIRONMENT, ROOT, only_run

RANKS = 2


def run_ranks(folder: Path, recipe: str, *arguments: str, code: int = 0) -> Path:
    """Run a recipe to its end in forked processes, which need not import PyTorch again."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    script = ROOT / "recipes" / f"{recipe}.py"
    ranks = []
    for rank in range(RANKS):
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
        numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS, "LOCAL_WORLD_SIZE": RANKS}
        elastic = {"TORCHELASTIC_RUN_ID": "test", "TORCHELASTIC_RESTART_COUNT": "0"}
        env = ENVIRONMENT | place | {key: str(value) for key, value in numbers.items()} | elastic
        ranks.append(processes.Process(script, *arguments, cwd=folder, env=env))
    first, *others = [rank.finish() for rank in ranks]
    for done in (first, *others):
        assert done.returncode == code, done.stderr
    assert all(not done.stdout for done in others)  # rank 0 speaks for all
    return only_run(folder)


def torchrun(folder: Path, recipe: str, *arguments: str, restarts: int = 0) -> subprocess.Popen:
    """Start a recipe as a user does."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    launch += ["--nproc-per-node", str(RANKS), "--max-restarts", str(restarts)]
    script = str(ROOT / "recipes" / f"{recipe}.py")
    return subprocess.Popen(
        [*launch, script, *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen, code: int = 0) -> str:
    """The output of a launch."""
    output, _ = process.communicate(timeout=300)
    assert process.returncode == code, output
    return output


def states(run_path: Path, frames: int | None = None) -> Sequence[dict[str, Any]]:
    """The states of all ranks in their checkpoints of a frame, or the newest of rank 0."""
    folders = step_folders(run_path / "checkpoints")
    at = max(folders) if frames is None else frames
    paths = [run_path, *(run_path / "ranks" / str(rank) for rank in range(1, RANKS))]
    return [Checkpoint.read(path / "checkpoints" / f"step_{at}").state() for path in paths]
