"""States of the random generators of NumPy and Python."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from rlkit_sac.envs.state.errors import CannotSaveError

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
    return np.random.Generator(getattr(np.random, name)())


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
    elif type(generator) is np.random.RandomState:
        generator.set_state(state)
    else:
        generator.bit_generator.state = state
