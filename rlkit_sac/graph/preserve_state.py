"""Running a module without side effects."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from rlkit_sac.graph.fingerprint import Fingerprint


@contextmanager
def preserve_state(
    module: nn.Module, tensors: Iterable[Tensor] = (), *, changes: Iterable[Tensor] = ()
) -> Iterator[None]:
    """Restore random generators, and a module's buffers and numbers, at the end of a block.

    Args:
        module: the module that the block runs.
        tensors: its inputs; the generators of their devices are restored too.
        changes: other tensors that the block changes in place.

    >>> noise = torch.rand
    >>> with preserve_state(nn.Linear(1, 1)):
    ...     first = noise(1)
    >>> bool(first == noise(1))
    True
    """
    buffers = [(each, each.detach().clone()) for each in (*module.buffers(), *changes)]
    numbers = Fingerprint(module)
    used = (*module.parameters(), *(buffer for buffer, _ in buffers), *tensors)
    cuda = sorted({tensor.get_device() for tensor in used if tensor.is_cuda})
    mps = torch.mps.get_rng_state() if any(tensor.is_mps for tensor in used) else None
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=cuda):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if mps is not None:
            torch.mps.set_rng_state(mps)
        numbers.restore_numbers()
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
