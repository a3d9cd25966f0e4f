"""Python values as nested dicts and lists of JSON values and NumPy arrays, and back."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlkit_sac.envs.state.plain_data import (
    GENERATORS,
    CannotSaveError,
    array_node,
    array_of,
    extent,
    generator_name,
    generator_state,
    make_generator,
    set_generator_state,
)
from rlkit_sac.errors import ConfigError

# A JSON value that stands for itself, or {"kind": name, …}.
Node = Any

_SEQUENCES: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (list, tuple, deque, set, frozenset)
}
_MAPPINGS: dict[str, type[Any]] = {kind.__name__: kind for kind in (dict, OrderedDict)}
VALUE_TYPES = (
    *(type(None), bool, int, float, str, bytes, np.ndarray),
    *(*_SEQUENCES.values(), *_MAPPINGS.values(), *GENERATORS),
)
MISSING = object()


class ValueWriter:
    """Turns values into nodes; an object that occurs again becomes a reference to its first node.

    Of exactly these types: None, bool, int, float, str, bytes, NumPy scalars and arrays, list,
    tuple, dict, OrderedDict, deque, set, frozenset, the random generators of NumPy and Python.

    >>> writer = ValueWriter()
    >>> writer.write((1, "two"))
    {'kind': 'tuple', 'items': [1, 'two']}
    >>> writer.write(object())
    Traceback (most recent call last):
    rlkit_sac.envs.state.plain_data.CannotSaveError: a value of type object cannot be saved
    """

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # alive, so that no id is given twice
        self._open: set[int] = set()
        self._steps: list[str] = []
        self._extents: list[tuple[int, int]] = []

    @property
    def path(self) -> str:
        """Keys and positions on the way to the value being written, or to one that was refused."""
        return "/".join(self._steps)

    def write(self, value: Any) -> Node:
        """Returns the node of one value.

        Raises:
            CannotSaveError: the value is of another type, contains itself, or is an array in memory
                that is not its own.
        """
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"kind": "float", "value": str(value)}
        if kind is bytes:
            return {"kind": "bytes", "data": np.frombuffer(value, np.uint8)}
        if isinstance(value, np.generic):
            return {"kind": "scalar", **array_node(np.asarray(value))}
        if (reference := self.refer(value)) is not None:
            return reference
        if kind is np.ndarray:
            self._check_memory(value)
            return {"kind": "array", **array_node(value)}
        if (name := generator_name(value)) is not None:
            state = self.write(generator_state(value))
            return {"kind": "generator", "name": name, "state": state}
        if kind in _MAPPINGS.values() or kind in _SEQUENCES.values():
            return self._write_container(value)
        raise CannotSaveError(f"a value of type {kind.__name__} cannot be saved")

    def refer(self, value: Any) -> Node | None:
        """Returns a reference if the value was written before; otherwise gives it a number."""
        if id(value) in self._open:
            raise CannotSaveError(f"a {type(value).__name__} that contains itself cannot be saved")
        if (number := self._numbers.get(id(value))) is not None:
            return {"kind": "same", "number": number}
        self._numbers[id(value)] = len(self._kept)
        self._kept.append(value)
        return None

    def _write_container(self, value: Any) -> Node:
        kind = type(value).__name__
        self._open.add(id(value))
        if kind in _MAPPINGS:
            items = [[self.write(key), self._write_at(key, item)] for key, item in value.items()]
        else:
            items = [self._write_at(index, item) for index, item in enumerate(value)]
        self._open.remove(id(value))
        limit = {"maxlen": value.maxlen} if kind == "deque" else {}
        return {"kind": kind, "items": items, **limit}

    def _write_at(self, step: object, value: Any) -> Node:
        self._steps.append(str(step))
        node = self.write(value)
        self._steps.pop()
        return node

    def _check_memory(self, array: NDArray[Any]) -> None:
        """Refuse an array that would come back apart from the memory it is in."""
        owner: Any = array
        while isinstance(owner, np.ndarray):
            owner = owner.base
        if owner is not None and not isinstance(owner, bytes):
            raise CannotSaveError("an array in the memory of another library cannot be saved")
        if not array.size:
            return
        start = array.__array_interface__["data"][0]
        low, high = extent(array.shape, array.strides, array.itemsize)
        if any(start + low < end and begin < start + high for begin, end in self._extents):
            raise CannotSaveError("an array that shares memory with another cannot be saved")
        self._extents.append((start + low, start + high))


class ValueReader:
    """Builds the values of nodes, in the order in which they were written.

    >>> shared = [1.5, float("nan")]
    >>> first, second = ValueReader().read(ValueWriter().write((shared, shared)))
    >>> first, first is second
    ([1.5, nan], True)
    """

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._taken: dict[int, Any] = {}

    def read(self, node: Node, current: Any = MISSING, path: str = "value") -> Any:
        """Returns the value of one node.

        Args:
            node: what :class:`ValueWriter` returned, possibly through JSON.
            current: what the value replaces. A random generator is set to the saved state instead,
                so that other references to it see the change.
            path: where the value belongs, for errors.

        Raises:
            ConfigError: the current value is an array of another shape.
        """
        if not isinstance(node, dict):
            return node
        kind = node["kind"]
        if kind == "same":
            return self._values[node["number"]]
        if kind == "float":
            return float(node["value"])
        if kind == "bytes":
            return np.asarray(node["data"], np.uint8).tobytes()
        if kind == "scalar":
            return array_of(node)[()]
        number = self.register(None)
        value = self._values[number] = self._build(kind, node, current)
        if kind == "array" and type(current) is np.ndarray and current.shape != value.shape:
            raise ConfigError(
                f"the saved state of the environment does not fit: {path} has shape "
                f"{list(value.shape)} there and {list(current.shape)} in this environment"
            )
        return value

    def register(self, value: Any) -> int:
        """Gives a value the next number, as :meth:`ValueWriter.refer` did."""
        self._values.append(value)
        return len(self._values) - 1

    def take(self, current: Any) -> bool:
        """Whether an object to be changed in place has not been taken for another one before."""
        is_free = id(current) not in self._taken
        self._taken[id(current)] = current  # alive, so that no id is given twice
        return is_free

    def _build(self, kind: str, node: dict[str, Any], current: Any) -> Any:
        if kind == "array":
            return array_of(node)
        if kind == "generator":
            usable = generator_name(current) == node["name"] and self.take(current)
            generator = current if usable else make_generator(node["name"])
            set_generator_state(generator, self.read(node["state"]))
            return generator
        if kind in _MAPPINGS:
            return _MAPPINGS[kind]((self.read(key), self.read(item)) for key, item in node["items"])
        items = [self.read(item) for item in node["items"]]
        return deque(items, node["maxlen"]) if kind == "deque" else _SEQUENCES[kind](items)
