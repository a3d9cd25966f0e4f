"""The random generators of Python, NumPy and PyTorch: seeding, saving, restoring."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

# They mark the sequences of seeds that are derived from a run's seed.
_EVALUATION, _RANKS = 1, 2


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
    """The seed of a run's evaluations, different from that of its training and of other runs.

    Args:
        seed: of the run, from 0 to 2**32 - 1.

    >>> evaluation_seed(0), evaluation_seed(1)
    (3964924996, 1189033389)
    """
    return int(np.random.SeedSequence([seed, _EVALUATION]).generate_state(1)[0])


def rank_seed(seed: int, rank: int) -> int:
    """The seed of the random streams of a rank; that of rank 0 is the run's own.

    Args:
        seed: of the run, from 0 to 2**32 - 1.
        rank: from 0.

    >>> rank_seed(5, 0), rank_seed(5, 1) == rank_seed(5, 2)
    (5, False)
    """
    if rank == 0:
        return seed
    return int(np.random.SeedSequence([seed, _RANKS, rank]).generate_state(1)[0])


def random_state() -> dict[str, Any]:
    """The state of every global generator, for :func:`set_random_state`.

    >>> state = random_state()
    >>> first = torch.rand(2)
    >>> set_random_state(state)
    True
    >>> bool((first == torch.rand(2)).all())
    True
    """
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
        # Asking for the state of an unused GPU would initialize it.
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
        "mps": torch.mps.get_rng_state() if torch.backends.mps.is_available() else None,
    }


def set_random_state(state: Mapping[str, Any]) -> bool:
    """Restore every global generator.

    Args:
        state: from :func:`random_state`, of this machine or another.

    Returns:
        Whether all of it could be set; false where other GPUs are in use than those of the state.
    """
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    gpus = torch.cuda.device_count() if torch.cuda.is_initialized() else 0
    complete = len(state["cuda"]) == gpus
    if gpus and complete:
        torch.cuda.set_rng_state_all(state["cuda"])
    if state["mps"] is not None:
        complete &= torch.backends.mps.is_available()
        if torch.backends.mps.is_available():
            torch.mps.set_rng_state(state["mps"])
    return complete


@contextmanager
def separate_random_streams(seed: int) -> Iterator[None]:
    """Seed all global generators for the block, and restore them afterwards.

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
    before = random_state()
    seed_everything(seed)
    try:
        yield
    finally:
        set_random_state(before)
