"""The random generators of all libraries, and running a module without side effects."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rlkit_sac.graph.fingerprint import Fingerprint


def random_state() -> dict[str, Any]:
    """Return the state of every global generator, for :func:`set_random_state`.

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
        state: a state from :func:`random_state`, of this machine or another.

    Returns:
        Whether all of it could be set; false if the state is from other GPUs.
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
def preserve_state(module: nn.Module, *, changes: Iterable[Tensor] = ()) -> Iterator[None]:
    """Restore random generators, and a module's buffers and numbers, at the end of a block.

    Args:
        module: the module that the block runs.
        changes: other tensors that the block changes in place.

    >>> noise = torch.rand
    >>> with preserve_state(nn.Linear(1, 1)):
    ...     first = noise(1)
    >>> bool(first == noise(1))
    True
    """
    buffers = [(each, each.detach().clone()) for each in (*module.buffers(), *changes)]
    numbers, generators = Fingerprint(module), random_state()
    try:
        yield
    finally:
        set_random_state(generators)
        numbers.restore_changed_numbers()
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
