"""The machine of a run: its device, and whether its update is compiled."""

from __future__ import annotations

import os
import shutil
import sys

import torch

from rlkit_sac.config.recipe import LONGEST_COMPILED_ROW, BaseRunConfig
from rlkit_sac.errors import ConfigError


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
