"""Noticing that a module is no longer the one that was recorded."""

from __future__ import annotations

import copy
import dataclasses
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

# Containers of a module that change in place, and are empty in most.
_OWN = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
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
        self._dicts = [attributes for _, attributes, _, _ in held]
        self._keys = [name for _, _, name, _ in held]
        self._values = [value for *_, value in held]
        tensors = [
            (value, f"{type(owner).__name__}.{name}")
            for owner, _, name, value in held
            if isinstance(value, Tensor)
        ]
        self._tensors = [tensor for tensor, _ in tensors]
        self._kinds = list(map(_kind, self._tensors))
        self._tensor_names = [name for _, name in tensors]
        own = [
            (value, len(value), f"{type(owner).__name__}.{name}")
            for owner, _, name, value in places
            if name.endswith("_hooks") or name in _OWN
        ]
        self._sizes = [each for each in own if each[1]]
        self._empty = [value for value, count, _ in own if not count]
        self._empty_names = [name for _, count, name in own if not count]
        containers = [
            (attributes, name, copy.copy(value), f"{type(owner).__name__}.{name}")
            for owner, attributes, name, value in places
            if not (name.endswith("_hooks") or name in _OWN) and _is_plain_container(value)
        ]
        self._container_dicts = [attributes for attributes, *_ in containers]
        self._container_keys = [key for _, key, *_ in containers]
        self._contents = [content for *_, content, _ in containers]
        self._container_names = [name for *_, name in containers]

    def change(self) -> str | None:
        """The first attribute that is another now; None if all are the same."""
        # Asked before every step of a policy: what is usual takes no loop in Python.
        try:
            same = all(
                map(operator.is_, map(operator.getitem, self._dicts, self._keys), self._values)
            )
        except KeyError:
            same = False
        if not same and (name := self._exchanged()) is not None:
            return name
        if (kinds := list(map(_kind, self._tensors))) != self._kinds:
            return self._tensor_names[list(map(operator.ne, kinds, self._kinds)).index(True)]
        if any(self._empty):
            return self._empty_names[list(map(bool, self._empty)).index(True)]
        for own, count, name in self._sizes:
            if len(own) != count:
                return name
        contents = [
            attributes.get(key, self)
            for attributes, key in zip(self._container_dicts, self._container_keys, strict=True)
        ]
        if contents != self._contents:
            return self._container_names[
                list(map(operator.ne, contents, self._contents)).index(True)
            ]
        return None

    def _exchanged(self) -> str | None:
        """The first attribute whose value is another object, and not an equal number or text."""
        for attributes, key, before, name in zip(
            self._dicts, self._keys, self._values, self._names, strict=True
        ):
            after = attributes.get(key, self)
            if before is not after and (not isinstance(before, _PLAIN) or before != after):
                return name
        return None

    def restore_numbers(self) -> None:
        """Give numbers and flags that have changed the values they had."""
        for attributes, key, before in zip(self._dicts, self._keys, self._values, strict=True):
            if type(before) in (bool, int, float) and key in attributes:
                attributes[key] = before


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
