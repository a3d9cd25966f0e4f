"""Noticing that a module is no longer the one that was recorded."""

from __future__ import annotations

import operator

import torch
from torch import Tensor, nn

_VALUES = (type(None), bool, int, float, str, torch.dtype, torch.device, Tensor)


class Fingerprint:
    """The numbers, flags and tensors that a module and its submodules hold at a moment.

    Tensors count by identity: other values in the same tensor are no change.

    Args:
        module: to be watched.

    >>> dropout = nn.Dropout(0.1)
    >>> fingerprint = Fingerprint(dropout)
    >>> fingerprint.change() is None
    True
    >>> dropout.p = 0.2
    >>> fingerprint.change()
    'Dropout.p'
    """

    def __init__(self, module: nn.Module) -> None:
        held = [
            (owner, attributes, name, value)
            for owner in module.modules()
            for attributes in (vars(owner), owner._parameters, owner._buffers)
            for name, value in attributes.items()
            if isinstance(value, _VALUES)
        ]
        self._names = [f"{type(owner).__name__}.{name}" for owner, _, name, _ in held]
        self._places = [(attributes, name) for _, attributes, name, _ in held]
        self._values = [value for *_, value in held]

    def change(self) -> str | None:
        """The first attribute that has another value now; None if all are the same."""
        now = [attributes.get(name, self) for attributes, name in self._places]
        if all(map(operator.is_, now, self._values)):
            return None
        for name, before, after in zip(self._names, self._values, now, strict=True):
            if before is not after and (isinstance(before, Tensor) or before != after):
                return name
        return None
