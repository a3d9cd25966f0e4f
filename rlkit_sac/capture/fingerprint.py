"""Noticing that a module is no longer the one that was recorded."""

from __future__ import annotations

import copy
import dataclasses
import operator
from collections.abc import Iterator
from itertools import chain
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
        owners = list(_modules(module, set()))
        places: list[tuple[nn.Module, dict[str, Any], str, Any]] = [
            (owner, attributes, name, value)
            for owner in owners
            for attributes in _attributes(owner)
            for name, value in attributes.items()
        ]
        self._dicts = [each for owner in owners for each in _attributes(owner) if each]
        self._objects = [value for attributes in self._dicts for value in attributes.values()]
        self._held = [
            (attributes, name, value, f"{type(owner).__name__}.{name}")
            for owner, attributes, name, value in places
            if isinstance(value, (*_PLAIN, Tensor, nn.Module))
        ]
        self._tensors = [value for _, _, value, _ in self._held if isinstance(value, Tensor)]
        self._kinds = self._present_kinds()
        own = [
            (value, len(value), f"{type(owner).__name__}.{name}")
            for owner, _, name, value in places
            if name.endswith("_hooks") or name in _OWN
        ]
        self._sizes = [each for each in own if each[1]]
        self._empty = [(value, name) for value, count, name in own if not count]
        self._empties = [value for value, _ in self._empty]
        self._containers = [
            (attributes, name, copy.copy(value), f"{type(owner).__name__}.{name}")
            for owner, attributes, name, value in places
            if not (name.endswith("_hooks") or name in _OWN) and _is_plain_container(value)
        ]
        self._filled = [attributes[name] for attributes, name, *_ in self._containers]
        self._contents = [content for _, _, content, _ in self._containers]

    def change(self) -> str | None:
        """The first attribute that is another now; None if all are the same."""
        # Asked before every step of a policy: where all is the same, it is found without a loop in
        # Python, and without looking up each name.
        now = chain.from_iterable(map(dict.values, self._dicts))
        if (
            all(map(operator.is_, now, self._objects))
            and not any(self._empties)
            and self._filled == self._contents
            and self._present_kinds() == self._kinds
            and not self._sizes_changed()
        ):
            return None
        found = self._first_change()
        if found is None:  # an object of another kind, or an equal number: from now on it is usual
            self._objects = [value for each in self._dicts for value in each.values()]
        return found

    def _first_change(self) -> str | None:
        """As :meth:`change`, attribute by attribute."""
        for attributes, key, before, name in self._held:
            after = attributes.get(key, self)
            if before is not after and (not isinstance(before, _PLAIN) or before != after):
                return name
        names = [name for _, _, value, name in self._held if isinstance(value, Tensor)]
        for kind, earlier, name in zip(self._present_kinds(), self._kinds, names, strict=True):
            if kind != earlier:
                return name
        for attributes, key, before, name in self._containers:
            if attributes.get(key, self) != before:
                return name
        for own, name in self._empty:
            if own:
                return name
        return self._sizes_changed()

    def _present_kinds(self) -> list[tuple[object, ...]]:
        return [(each.requires_grad, each.dtype, each.device) for each in self._tensors]

    def _sizes_changed(self) -> str | None:
        for own, count, name in self._sizes:
            if len(own) != count:
                return name
        return None

    def restore_numbers(self) -> None:
        """Give numbers and flags that have changed the values they had."""
        for attributes, key, before, _ in self._held:
            if type(before) in (bool, int, float) and key in attributes:
                attributes[key] = before


def _attributes(owner: nn.Module) -> tuple[dict[str, Any], ...]:
    registered: tuple[Any, ...] = (owner._parameters, owner._buffers, owner._modules)
    return vars(owner), *registered


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
