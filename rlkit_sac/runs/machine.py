"""The machine of a run: its device, whether the update is compiled, and the ranks of torchrun."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from rlkit_sac.config.run import LONGEST_COMPILED_ROW, BaseRunConfig
from rlkit_sac.errors import ConfigError
from rlkit_sac.updates.process_group import convert_lost_rank_errors

if TYPE_CHECKING:
    from torch._C._distributed_c10d import TCPStore
    from torch.distributed import ProcessGroup


def resolve_device(name: str) -> torch.device:
    """Turn the name of a device into one that this machine has.

    Args:
        name: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``, or ``"auto"``: CUDA where there is
            a GPU, else the CPU (small networks run slower on MPS than on the CPU).

    Raises:
        ConfigError: if the machine lacks it, naming those it has.

    >>> resolve_device("cpu")
    device(type='cpu')
    """
    available = ["cpu"]
    if torch.cuda.is_available():
        available += ["cuda", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        available.append("mps")
    if name == "auto":
        name = "cuda" if "cuda" in available else "cpu"
    if name not in available:
        choices = ", ".join(["auto", *available])
        raise ConfigError(f"device '{name}' is not available here; choose one of {choices}")
    return torch.device(name)


def first_compiled_update(config: BaseRunConfig, device: torch.device | None) -> int | None:
    """Return the number of the first update of a run to compile, if any.

    It depends neither on time nor on the updates so far, so that a resumed run equals one that
    never stopped. ``compile: auto`` compiles after ``uncompiled_updates`` if there is a compiler.
    It does not compile where that costs more time than it saves: in runs with a memory over long
    rows, and in runs with few updates. Compiling takes about as long as the uncompiled
    updates before it, and a compiled update half as long as another one.

    Args:
        config: the options of the run.
        device: the device of the update.

    >>> from rlkit_sac.runs import RunConfig
    >>> first_compiled_update(RunConfig(compile=True), torch.device("cpu"))
    1
    """
    if config.compile != "auto":
        return 1 if config.compile else None
    uncompiled = config.uncompiled_updates
    long = config.has_memory and config.row_length > LONGEST_COMPILED_ROW
    if long or config.planned_updates() < 3 * uncompiled:
        return None
    kind = "cpu" if device is None else device.type
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    can_compile = kind == "cuda" or (kind == "cpu" and shutil.which(compiler) is not None)
    return uncompiled + 1 if can_compile else None


def num_ranks() -> int:
    """Return the number of processes that ``torchrun`` started for this run; 1 without it.

    >>> num_ranks()
    1
    """
    return int(os.environ["WORLD_SIZE"]) if "TORCHELASTIC_RUN_ID" in os.environ else 1


def rank() -> int:
    """Return the number of this process among them, from 0.

    >>> rank()
    0
    """
    return int(os.environ["RANK"]) if num_ranks() > 1 else 0


def share_of_rank(frames: int) -> int:
    """Return the share of this rank in frames, or samples, of the whole run, rounded up.

    >>> share_of_rank(1000)
    1000
    """
    return -(-frames // num_ranks())


def rank_seed(seed: int) -> int:
    """Return the seed of the random streams of this rank; that of rank 0 is the run's own.

    Args:
        seed: the seed of the run, from 0 to 2**32 - 1.

    >>> rank_seed(5)
    5
    """
    if rank() == 0:
        return seed
    return int(np.random.SeedSequence([seed, 2, rank()]).generate_state(1)[0])  # 1: evaluations


def device_of_rank(device: torch.device) -> torch.device:
    """Return the device of this rank, which has a GPU of its own.

    Raises:
        ConfigError: for a device that all ranks would share.

    >>> device_of_rank(torch.device("cpu"))
    device(type='cpu')
    """
    if num_ranks() == 1 or device.type == "cpu":
        return device
    if str(device) != "cuda":
        raise ConfigError(f"device '{device}' is one for all processes: choose auto, cuda or cpu")
    return torch.device("cuda", int(os.environ["LOCAL_RANK"]))


def launcher() -> list[str]:
    """Return the beginning of a command line that starts as many processes as run now.

    >>> launcher() == [sys.executable]
    True
    """
    if num_ranks() == 1:
        return [sys.executable]
    return ["torchrun", "--nproc-per-node", os.environ["LOCAL_WORLD_SIZE"]]


def learner_group() -> ProcessGroup | None:
    """Return the ranks, for :class:`~rlkit_sac.updates.Update`; ``None`` for a single process.

    >>> learner_group() is None
    True
    """
    if num_ranks() == 1:
        return None
    from torch.distributed import group

    return group.WORLD


@contextmanager
def process_group(device: torch.device) -> Iterator[None]:
    """Connect the ranks for the block; without ``torchrun`` nothing happens.

    Only rank 0 writes to the standard output.

    Args:
        device: the device of the updates.

    >>> with process_group(torch.device("cpu")):
    ...     learner_group() is None
    True
    """
    if num_ranks() == 1:
        yield
        return
    from torch import distributed

    with convert_lost_rank_errors():
        # A restarted rank must not meet the addresses of those before the restart.
        store = distributed.PrefixStore(  # type: ignore[attr-defined]
            f"round{_round()}", _store()
        )
        backend = "gloo"
        if device.type == "cuda":
            torch.cuda.set_device(device)
            backend = "cpu:gloo,cuda:nccl"
        # The others wait for the evaluations of rank 0; one that has ended is noticed at once.
        distributed.init_process_group(
            backend, store=store, rank=rank(), world_size=num_ranks(), timeout=timedelta(days=1)
        )
    with contextlib.ExitStack() as opened:
        opened.callback(distributed.destroy_process_group)
        if rank():
            nowhere = opened.enter_context(open(os.devnull, "w"))
            opened.enter_context(contextlib.redirect_stdout(nowhere))
        yield


def max_over_ranks(*numbers: float) -> list[float]:
    """Return the maximum of each number over all ranks, which wait for each other here.

    Raises:
        RunError: if a rank is lost.

    >>> max_over_ranks(1.0, 2.0)
    [1.0, 2.0]
    """
    if num_ranks() == 1:
        return list(numbers)
    from torch.distributed import ReduceOp, all_reduce

    maxima = torch.tensor(numbers, dtype=torch.float64)
    with convert_lost_rank_errors():
        all_reduce(maxima, op=ReduceOp.MAX)
    return maxima.tolist()


def announce_run(run_path: Path) -> None:
    """Tell the other ranks, and those after a restart, of the directory of the run."""
    if num_ranks() > 1:
        _store().set(_key(_round()), str(run_path))


def announced_run() -> Path:
    """Return the directory that rank 0 announces, or has announced.

    Raises:
        RunError: if it does not within some minutes.
    """
    with convert_lost_rank_errors():
        return Path(_store().get(_key(_round())).decode())


def interrupted_run() -> Path | None:
    """Return the run directory that was announced before ``torchrun`` restarted the ranks.

    >>> interrupted_run() is None
    True
    """
    rounds = range(_round()) if num_ranks() > 1 else range(0)
    for key in map(_key, reversed(rounds)):
        if _store().check([key]):
            return Path(_store().get(key).decode())
    return None


def _round() -> int:
    """Return how often ``torchrun`` has restarted the ranks."""
    return int(os.environ["TORCHELASTIC_RESTART_COUNT"])


def _key(round_number: int) -> str:
    return f"rlkit_sac/run{round_number}"


def _store() -> TCPStore:
    """Return the store of ``torchrun``, which outlives the ranks."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return TCPStore(*place, is_master=False)
