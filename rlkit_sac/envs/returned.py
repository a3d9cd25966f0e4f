"""What an environment returned, compared with what Gymnasium and its own spaces declare."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SEQUENCES = (tuple, list)


class UnexpectedReturn(ValueError):  # noqa: N818 (raise_fault gives it the name of a fault)
    """What an environment returned is not what Gymnasium or its own spaces declare."""


def values_of(method: str, result: Any, names: Sequence[str]) -> Any:
    """What a method returned, which must be a tuple with a value of each name.

    >>> values_of("reset", 0.5, ["observation", "info"])
    Traceback (most recent call last):
    rlkit_sac.envs.returned.UnexpectedReturn: reset returned 0.5, wanted observation, info
    """
    if isinstance(result, _SEQUENCES) and len(result) == len(names):
        return result
    what = f"{len(result)} values" if isinstance(result, tuple) else shown(result)
    raise UnexpectedReturn(f"{method} returned {what}, wanted {', '.join(names)}")


def as_bool(name: str, value: Any) -> bool:
    """Whether a value is true; it must be one boolean, or a number that is 0 or 1.

    >>> as_bool("terminated", np.array([True])), as_bool("terminated", 0)
    (True, False)
    """
    number = value.item() if np.shape(value) in ((), (1,)) and hasattr(value, "item") else value
    if not isinstance(number, bool | np.bool_ | int | float | np.number) or number not in (0, 1):
        raise UnexpectedReturn(f"{name} is {shown(value)}, wanted True or False")
    return bool(number)


def as_numbers(
    name: str, value: Any, shape: tuple[int, ...], *, declared: str = "by its observation_space"
) -> NDArray[Any]:
    """The array of a value that is numbers, or booleans, of a shape; a single number has any shape.

    Args:
        name: of the value, for messages.
        value: what an environment returned.
        shape: wanted.
        declared: where the environment declares the shape.

    Raises:
        UnexpectedReturn: for anything else.

    >>> as_numbers("the reward", [1.5], ())
    array([1.5])
    >>> as_numbers("the reward", "1.5", ())
    Traceback (most recent call last):
    rlkit_sac.envs.returned.UnexpectedReturn: the reward is '1.5', wanted numbers
    """
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        array = np.empty((), object)
    if array.dtype.kind not in "fiub":
        raise UnexpectedReturn(f"{name} is {shown(value)}, wanted numbers")
    if array.shape != shape and not array.size == prod(shape) == 1:
        raise UnexpectedReturn(
            f"{name} has the shape {list(array.shape)}, but the environment declares "
            f"{list(shape)} ({declared})"
        )
    return array


def as_dtype(name: str, array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """A copy of another type; floating-point numbers may be rounded, whole ones must be the same.

    Args:
        name: of the array, for messages.
        array: to convert.
        dtype: wanted.

    Raises:
        UnexpectedReturn: for a number that the type cannot hold.

    >>> as_dtype("the observation", np.array([300]), np.dtype(np.uint8))
    Traceback (most recent call last):
    rlkit_sac.envs.returned.UnexpectedReturn: the observation is array([300]), wanted uint8
    """
    if dtype.kind == "f" or array.dtype == dtype:
        return np.array(array, dtype)
    with np.errstate(invalid="ignore"):
        converted = np.array(array, dtype)
    if (converted != array).any():
        raise UnexpectedReturn(f"{name} is {shown(array)}, wanted {dtype}")
    return converted


def shown(value: Any) -> str:
    """A value in one short line.

    >>> shown(np.zeros(2)), shown(range(100))
    ('array([0., 0.])', 'range(0, 100)')
    """
    return " ".join(reprlib.repr(value).split())
