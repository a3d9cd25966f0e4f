"""Where a run computes."""

from __future__ import annotations

import torch

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
        return torch.device("cuda" if "cuda" in available else "cpu")
    if name not in available:
        choices = ", ".join(["auto", *available])
        raise ConfigError(f"device '{name}' is not available here; choose one of {choices}")
    return torch.device(name)
