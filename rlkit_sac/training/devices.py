"""Where a run computes, and the random streams it computes with."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from rlkit_sac.errors import ConfigError

_EVALUATION = 1  # marks the sequence of evaluation seeds among those derived from a run's seed


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


def seed_everything(seed: int) -> None:
    """Seed the global generators of Python, NumPy and PyTorch (all devices).

    Args:
        seed: from 0 to 2**32 - 1.

    >>> seed_everything(0)
    """
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def evaluation_seed(seed: int) -> int:
    """The seed of a run's evaluations, unlike that of its training and of every other run.

    Args:
        seed: of the run, from 0 to 2**32 - 1.

    >>> evaluation_seed(0), evaluation_seed(1)
    (3964924996, 1189033389)
    """
    return int(np.random.SeedSequence([seed, _EVALUATION]).generate_state(1)[0])


@contextmanager
def separate_random_streams(seed: int) -> Iterator[None]:
    """Seed all global generators for the block, and afterwards put them back where they were.

    Args:
        seed: as in `seed_everything`.

    >>> seed_everything(0)
    >>> with separate_random_streams(1):
    ...     inside = random.random()
    >>> after = random.random()
    >>> seed_everything(0)
    >>> after == random.random()
    True
    """
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    # Asking for the state of an unused GPU would initialize it.
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    seed_everything(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
        if mps is not None:
            torch.mps.set_rng_state(mps)
