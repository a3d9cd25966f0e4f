"""Noticing that a module is no longer the one that was recorded."""

from __future__ import annotations

import copy
import dataclasses
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

_PLAIN = (type(None), bool, int, float, str, torch.dtype, torch.device, torch.Size)


class Fingerprint:
    """What a module and the modules it holds are made of at a moment.

    Numbers, flags, strings, keys, tensors, submodules, hooks, and lists and mappings of plain
    values. Tensors count by identity, type and need of gradients: other values in the same tensor
    are no change. What objects of other kinds hold is not seen.

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
        places: list[tuple[nn.Module, dict[str, Any], str, Any]] = [
            (owner, attributes, name, value)
            for owner in _modules(module, set())
            for attributes in _attributes(owner)
            for name, value in attributes.items()
        ]
        held = [place for place in places if isinstance(place[3], (*_PLAIN, Tensor, nn.Module))]
        self._names = [f"{type(owner).__name__}.{name}" for owner, _, name, _ in held]
        self._places = [(attributes, name) for _, attributes, name, _ in held]
        self._values = [value for *_, value in held]
        self._tensors = [
            (
                value,
                value.requires_grad,
                value.dtype,
                value.device,
                f"{type(owner).__name__}.{name}",
            )
            for owner, _, name, value in held
            if isinstance(value, Tensor)
        ]
        self._copies = [
            (attributes, name, copy.copy(value), f"{type(owner).__name__}.{name}")
            for owner, attributes, name, value in places
            if _is_plain_container(value)
        ]
        self._hooks = [
            (value, len(value), f"{type(owner).__name__}.{name}")
            for owner, _, name, value in places
            if name.endswith("_hooks") and isinstance(value, dict)
        ]

    def change(self) -> str | None:
        """The first attribute that is another now; None if all are the same."""
        now = [attributes.get(name, self) for attributes, name in self._places]
        if not all(map(operator.is_, now, self._values)):
            for name, before, after in zip(self._names, self._values, now, strict=True):
                if before is not after and (not isinstance(before, _PLAIN) or before != after):
                    return name
        for tensor, requires_grad, dtype, device, name in self._tensors:
            if (tensor.requires_grad, tensor.dtype, tensor.device) != (
                requires_grad,
                dtype,
                device,
            ):
                return name
        for attributes, name, before, title in self._copies:
            if attributes.get(name, self) != before:
                return title
        for hooks, count, name in self._hooks:
            if len(hooks) != count:
                return name
        return None

    def restore_numbers(self) -> None:
        """Give numbers and flags that have changed the values they had."""
        for (attributes, name), before in zip(self._places, self._values, strict=True):
            if type(before) in (bool, int, float) and name in attributes:
                attributes[name] = before


def _attributes(owner: nn.Module) -> tuple[dict[str, Any], ...]:
    registered: tuple[Any, ...] = (owner._parameters, owner._buffers, owner._modules)
    return vars(owner), *registered


def _kind(tensor: Tensor) -> tuple[object, ...]:
    return tensor.requires_grad, tensor.dtype, tensor.device


def _modules(module: nn.Module, seen: set[int]) -> Iterator[nn.Module]:
    """A module, its submodules, and those it holds as plain attributes, as TorchRL's losses do."""
    if id(module) in seen:
        return
    seen.add(id(module))
    yield module
    for value in (*module._modules.values(), *vars(module).values()):
        if isinstance(value, nn.Module):
            yield from _modules(value, seen)
        elif type(value) in (list, tuple, dict):
            for each in value.values() if isinstance(value, dict) else value:
                if isinstance(each, nn.Module):
                    yield from _modules(each, seen)


def _is_plain_container(value: Any) -> bool:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return hasattr(value, "__dict__") and all(map(_is_plain, vars(value).values()))
    return type(value) in (list, tuple, dict, set) and _is_plain(value)


def _is_plain(value: Any) -> bool:
    if type(value) is dict:
        return all(_is_plain(each) for each in (*value.keys(), *value.values()))
    if type(value) in (list, tuple, set):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN)
