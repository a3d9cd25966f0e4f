"""Errors of networks that do not fit what they read, in one line."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule

from rlkit_sac.errors import RlkitSacError, RunError

_OF_SHAPES = re.compile(r"\b(shapes?|sizes?|dim|dimensions?|channels)\b")
#: Local variables of the functions that call a network: the network, and what it reads.
_CALLS = (("self", "tensordict"), ("network", "inputs"))


@contextmanager
def named_network_faults() -> Iterator[None]:
    """In the block an error of PyTorch about shapes names the network and what it was given.

    Raises:
        RunError: instead of the error, which is its cause, where a network's call is behind it.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> network = TensorDictModule(torch.nn.Linear(4, 2), ["observation"], ["q"])
    >>> with named_network_faults():
    ...     network(TensorDict(observation=torch.zeros(3)))
    Traceback (most recent call last):
    rlkit_sac.errors.RunError: the network that reads 'observation' of shape [3] and writes 'q' \
does not fit it: ...
    """
    try:
        yield
    except (RuntimeError, ValueError) as error:
        call = None if isinstance(error, RlkitSacError) else _network_call(error)
        if call is None or not _OF_SHAPES.search(str(error)):
            raise
        network, given = call
        shapes = ((key, given.get(key, None)) for key in network.in_keys)
        read = ", ".join(f"{key!r} of shape {list(v.shape)}" for key, v in shapes if v is not None)
        raise RunError(
            f"the network that reads {read} and writes {', '.join(map(repr, network.out_keys))} "
            f"does not fit it: {' '.join(str(error).split())}; give its first layer the size of "
            "what it reads"
        ) from error


def _network_call(error: BaseException) -> tuple[TensorDictModule, TensorDictBase] | None:
    """The innermost network whose call raised an error, and what it was given."""
    found = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        for names in _CALLS:
            network, given = map(frame.f_locals.get, names)
            if isinstance(network, TensorDictModule) and isinstance(given, TensorDictBase):
                found = network, given
    return found
