"""Arrays and random generators as plain data."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class CannotSaveError(TypeError):
    """A value that cannot be turned into plain data."""


def array_node(array: NDArray[Any]) -> dict[str, Any]:
    """Returns dtype, shape, strides where they are unusual, and the data as a copy in C order.

    The data keep their dtype where it is a boolean, an integer or a float of at most 64 bits in the
    machine's byte order; otherwise they are bytes.

    Raises:
        CannotSaveError: the array holds objects, records or nothing at all.

    >>> array_node(np.array([1, 2], np.int8))
    {'dtype': '|i1', 'shape': [2], 'data': array([1, 2], dtype=int8)}
    """
    dtype = array.dtype
    if dtype.hasobject or dtype.kind == "V" or not dtype.itemsize:
        raise CannotSaveError(f"an array of {dtype} cannot be saved")
    node: dict[str, Any] = {"dtype": dtype.str, "shape": list(array.shape)}
    if not array.flags.c_contiguous:
        node["strides"] = list(array.strides)
    node["data"] = (
        array.copy(order="C") if _is_common(dtype) else np.frombuffer(array.tobytes(), np.uint8)
    )
    return node


def array_of(node: dict[str, Any]) -> NDArray[Any]:
    """Returns the array of a node, in the memory layout it had.

    >>> array_of(array_node(np.ones((2, 3), order="F"))).flags.f_contiguous
    True
    """
    dtype, shape = np.dtype(node["dtype"]), tuple(node["shape"])
    if _is_common(dtype):
        data = np.array(node["data"], dtype).reshape(shape)
    else:
        content = np.asarray(node["data"], np.uint8).tobytes()
        data = np.frombuffer(content, dtype).reshape(shape).copy()
    if "strides" not in node or not data.size:
        return data
    # Sums and products of another layout may round differently.
    low, high = extent(shape, node["strides"], dtype.itemsize)
    memory = np.zeros(high - low, np.uint8)
    array: NDArray[Any] = np.ndarray(shape, dtype, memory.data, -low, node["strides"])
    array[...] = data
    return array


def extent(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """Returns where an array begins and ends in memory, in bytes from its first element.

    >>> extent([3], [-8], 8)
    (-16, 8)
    """
    spans = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    return sum(min(span, 0) for span in spans), sum(max(span, 0) for span in spans) + itemsize


def _is_common(dtype: np.dtype[Any]) -> bool:
    return dtype.isnative and dtype.kind in "biuf" and dtype.itemsize <= 8


GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)


def generator_name(generator: Any) -> str | None:
    """Returns the algorithm of a random generator, None for any other object.

    Raises:
        CannotSaveError: its bits come from outside of NumPy.

    >>> generator_name(np.random.default_rng()), generator_name(random.Random())
    ('PCG64', 'Random')
    """
    kind = type(generator)
    if kind is np.random.Generator:
        name = type(generator.bit_generator).__name__
        if type(generator.bit_generator) is not getattr(np.random, name, None):
            raise CannotSaveError(f"a random generator of {name} cannot be saved")
        return name
    return kind.__name__ if kind in GENERATORS else None


def make_generator(name: str) -> Any:
    """Returns a generator in a state of its own.

    >>> make_generator("Philox").bit_generator.state["bit_generator"]
    'Philox'
    """
    if name == "Random":
        return random.Random()
    if name == "RandomState":
        return np.random.RandomState()
    kind = getattr(np.random, name, None)
    if not (isinstance(kind, type) and issubclass(kind, np.random.BitGenerator)):
        raise ValueError(f"{name!r} is not a random generator of NumPy")
    return np.random.Generator(kind())


def generator_state(generator: Any) -> Any:
    """Returns the state of a generator, in dictionaries, tuples, arrays and numbers."""
    if type(generator) is random.Random:
        return generator.getstate()
    if type(generator) is np.random.RandomState:
        return generator.get_state(legacy=False)
    return generator.bit_generator.state


def set_generator_state(generator: Any, state: Any) -> None:
    """Sets what :func:`generator_state` returned.

    >>> first, second = np.random.default_rng(1), np.random.default_rng(2)
    >>> set_generator_state(second, generator_state(first))
    >>> first.random() == second.random()
    True
    """
    if type(generator) is random.Random:
        generator.setstate(state)
        return
    check_position(state)
    if type(generator) is np.random.RandomState:
        generator.set_state(state)
    else:
        generator.bit_generator.state = state


def check_position(state: Any) -> None:
    """Refuse a state of a NumPy generator whose position is not in its words.

    NumPy does not check it, and would read from other memory.

    >>> check_position(("MT19937", np.zeros(624), 10**9, 0, 0.0))
    Traceback (most recent call last):
        ...
    ValueError: the state of a random generator has no such position
    """
    if isinstance(state, dict):
        positions = {624: state["state"].get("pos", 0), 4: state.get("buffer_pos", 0)}
    else:
        positions = {624: state[2]}
    if not all(0 <= position <= words for words, position in positions.items()):
        raise ValueError("the state of a random generator has no such position")
