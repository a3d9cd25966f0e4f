"""Detecting that a module has changed since it was recorded."""

from __future__ import annotations

import copy
import dataclasses
import operator
from collections.abc import Iterable, Iterator
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

#: The name of an owner, a dictionary of its attributes, and the keys in it to watch.
Held: TypeAlias = tuple[str, dict[Any, Any], Iterable[Any]]

_kind = operator.attrgetter("requires_grad", "dtype", "device")
_OWN = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
_PLAIN = (type(None), bool, int, float, str, torch.dtype, torch.device, torch.Size)

_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, Enum)
_HELD = (*_PLAIN, *_FUNCTIONS, Tensor, nn.Module)


class Fingerprint:
    """The attributes of a module and its submodules at one point in time.

    It holds numbers, flags, strings, keys, functions, tensors, submodules, hooks, and lists and
    mappings of plain values. Tensors are compared by identity, dtype, device and
    ``requires_grad``: new values in the same tensor are no change. The contents of other objects
    are not compared.

    Args:
        module: the module to watch.
        also: dictionaries to watch besides; values that are not plain are compared by identity.

    >>> dropout = nn.Dropout(0.1)
    >>> fingerprint = Fingerprint(dropout)
    >>> fingerprint.first_changed_attribute() is None
    True
    >>> dropout.p = 0.2
    >>> fingerprint.first_changed_attribute()
    'Dropout.p'
    """

    def __init__(self, module: nn.Module, *also: Held) -> None:
        places = [
            (f"{type(owner).__name__}.{name}", attributes, name)
            for owner in _modules(module, set())
            for attributes in _attribute_dicts(owner)
            for name in attributes
        ]
        held = [each for each in places if isinstance(_attribute_at(each), _HELD)]
        held += [
            (f"{title}.{name}" if isinstance(name, str) else title, attributes, name)
            for title, attributes, names in also
            for name in names
        ]
        self._titles, self._owners, self._keys = zip(*held, strict=True)
        self._values = list(map(_attribute_at, held))
        tensors = [each for each in held if isinstance(_attribute_at(each), Tensor)]
        self._tensor_titles = [title for title, *_ in tensors]
        self._tensors = list(map(_attribute_at, tensors))
        self._kinds = list(map(_kind, self._tensors))
        self._copies = [
            (title, attributes, name, copy.copy(attributes[name]))
            for title, attributes, name in places
            if not _is_module_dict(name, attributes[name]) and _is_plain_container(attributes[name])
        ]
        own = [each for each in places if _is_module_dict(each[2], _attribute_at(each))]
        self._own_titles = [title for title, *_ in own]
        self._own = list(map(_attribute_at, own))
        self._own_counts = list(map(len, self._own))

    def first_changed_attribute(self) -> str | None:
        """Return the name of the first attribute that has changed; None if none has."""
        # Called before every update: the loops over all places run inside map().
        if not all(map(operator.is_, map(dict.get, self._owners, self._keys), self._values)):
            now = map(dict.get, self._owners, self._keys)
            for title, before, after in zip(self._titles, self._values, now, strict=True):
                if before is not after and (not _is_plain_value(before) or before != after):
                    return title
        if (kinds := list(map(_kind, self._tensors))) != self._kinds:
            return _first_difference(self._tensor_titles, kinds, self._kinds)
        for title, attributes, name, before in self._copies:
            if attributes.get(name) != before:
                return title
        if (counts := list(map(len, self._own))) != self._own_counts:
            return _first_difference(self._own_titles, counts, self._own_counts)
        return None

    def restore_changed_numbers(self) -> None:
        """Restore the values of numbers and flags that have changed."""
        for attributes, name, before in zip(self._owners, self._keys, self._values, strict=True):
            if type(before) in (bool, int, float) and name in attributes:
                attributes[name] = before


def _attribute_dicts(owner: nn.Module) -> tuple[dict[str, Any], ...]:
    registered: tuple[Any, ...] = (owner._parameters, owner._buffers, owner._modules)
    return vars(owner), *registered


def _attribute_at(place: tuple[str, dict[Any, Any], Any]) -> Any:
    _, attributes, name = place
    return attributes[name]


def _is_module_dict(name: str, value: Any) -> bool:
    """Return whether an attribute is one of the collections that every ``nn.Module`` has."""
    return (name.endswith("_hooks") or name in _OWN) and isinstance(value, dict | set)


def _first_difference(titles: list[str], now: list[Any], before: list[Any]) -> str:
    return next(title for title, a, b in zip(titles, now, before, strict=True) if a != b)


def _modules(module: nn.Module, seen: set[int]) -> Iterator[nn.Module]:
    """Yield a module, its submodules, and modules in plain attributes, as in TorchRL's losses."""
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
        return hasattr(value, "__dict__") and all(map(_is_plain_value, vars(value).values()))
    return type(value) in (list, tuple, dict, set) and _is_plain_value(value)


def _is_plain_value(value: Any) -> bool:
    if type(value) is dict:
        return all(_is_plain_value(each) for each in (*value.keys(), *value.values()))
    if type(value) in (list, tuple, set):
        return all(map(_is_plain_value, value))
    return isinstance(value, _PLAIN)
