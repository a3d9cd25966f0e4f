"""The device of a run, and from which update on it compiles there."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Literal

import torch

from rlkit_sac.errors import ConfigError
from rlkit_sac.runs.ranks import num_ranks

#: Updates that a run makes uncompiled, so that short runs are spared the time of compiling.
UNCOMPILED_UPDATES = 1_000


def resolve_device(name: str) -> torch.device:
    """Turn the name of a device into one that this machine has.

    Args:
        name: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``, or ``"auto"``: CUDA where there is
            a GPU, else the CPU (small networks run slower on MPS than on the CPU). Under
            ``torchrun`` ``"cuda"`` is the GPU of this process.

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
    if num_ranks() > 1 and name.startswith(("cuda", "mps")):
        if name != "cuda":
            text = f"device '{name}' is one for all processes: choose auto, cuda or cpu"
            raise ConfigError(text)
        name = f"cuda:{os.environ['LOCAL_RANK']}"
    if name not in available:
        choices = ", ".join(["auto", *available])
        raise ConfigError(f"device '{name}' is not available here; choose one of {choices}")
    return torch.device(name)


def first_compiled_update(
    choice: Literal["auto"] | bool,
    device: torch.device | None,
    *,
    uncompiled: int = UNCOMPILED_UPDATES,
) -> int | None:
    """Number of the first update to compile.

    It depends neither on time nor on the updates so far, so that a resumed run equals one that
    never stopped.

    Args:
        choice: ``True`` for the first update, ``False`` for none, ``"auto"`` for the first after
            ``uncompiled`` ones where there is a compiler.
        device: of the update.
        uncompiled: updates before it. Default: 1,000.

    >>> first_compiled_update(True, torch.device("cpu"))
    1
    """
    if choice == "auto":
        return uncompiled + 1 if _can_compile(device) else None
    return 1 if choice else None


def _can_compile(device: torch.device | None) -> bool:
    kind = "cpu" if device is None else device.type
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    return kind == "cuda" or (kind == "cpu" and shutil.which(compiler) is not None)
