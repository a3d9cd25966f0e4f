"""Tensors that report another device and hold their values on the CPU, to test devices without one.

The device is ``meta``, which every PyTorch has. Under :class:`Device` an operation raises where it
would on a GPU: for tensors of two devices, and for a generator of the CPU.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

DEVICE = torch.device("meta")
_aten = torch.ops.aten
_COPIES = (_aten._to_copy, _aten.copy_, _aten.copy)


class DeviceTensor(Tensor):
    """A tensor that says it is on the device."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> DeviceTensor:
        own = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=DEVICE,
        )
        own.held = held
        return own

    def tolist(self) -> list:
        return self.held.tolist()

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return _run(function, args, kwargs or {})


class Device(TorchDispatchMode):
    """Makes and checks tensors of the device inside the block."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return _run(function, args, kwargs or {})


def _run(function, args, kwargs):
    tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
    own = {id(each.held): each for each in tensors if isinstance(each, DeviceTensor)}
    others = [each for each in tensors if not isinstance(each, DeviceTensor) and each.dim()]
    copies = function.overloadpacket in _COPIES
    if own and others and not copies:
        raise RuntimeError(f"{function}: tensors of two devices, {[list(x.shape) for x in others]}")
    target = kwargs.get("device")
    inside = bool(own) if target is None else torch.device(target) == DEVICE
    if function.overloadpacket is _aten.copy_:
        inside = isinstance(args[0], DeviceTensor)
    if inside and kwargs.get("generator") is not None:
        raise RuntimeError(f"{function}: a generator of the CPU")
    if target is not None:
        kwargs = kwargs | {"device": torch.device("cpu")}
    args, kwargs = tree_map_only(DeviceTensor, lambda each: each.held, (args, kwargs))
    found = function(*args, **kwargs)
    if target is not None and not inside and own and not copies:
        raise RuntimeError(f"{function}: makes a tensor of the CPU from one of the device")
    if not inside:
        return found

    def wrapped(each: Tensor) -> Tensor:
        return own[id(each)] if id(each) in own else DeviceTensor(each)

    return tree_map_only(Tensor, wrapped, found)
