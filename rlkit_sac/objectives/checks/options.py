"""The bounds of the numbers and the choices among the options of losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from numbers import Real
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from torch import Tensor

from rlkit_sac.errors import ConfigError


class Bound(NamedTuple):
    """The numbers that an option may be, and how an error calls them."""

    text: str
    contains: Callable[[float], bool]


SHARE = Bound("in (0, 1]", lambda value: 0 < value <= 1)
UNIT = Bound("in [0, 1]", lambda value: 0 <= value <= 1)
NOT_NEGATIVE = Bound("a finite number >= 0", lambda value: 0 <= value < math.inf)
POSITIVE = Bound("a finite number > 0", lambda value: 0 < value < math.inf)
COUNT = Bound("an integer >= 0", lambda value: 0 <= value < math.inf and value == int(value))
FINITE = Bound("a finite number", math.isfinite)


def check_number(option: str, value: object, bound: Bound) -> None:
    """Refuse a number outside of its bound.

    Args:
        option: of a loss.
        value: a number, or a tensor of one element.
        bound: of the option.

    Raises:
        ConfigError: naming the option, its value and the bound.

    >>> check_number("gamma", 1.5, UNIT)
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: gamma must be in [0, 1], not 1.5
    """
    is_number = isinstance(value, Real) or (isinstance(value, Tensor) and value.numel() == 1)
    if not (is_number and bound.contains(float(value))):  # type: ignore[arg-type]
        raise ConfigError(f"{option} must be {bound.text}, not {value!r}")


def check_choice(option: str, value: object, choices: Sequence[object]) -> None:
    """Refuse an option that is not one of the choices.

    Raises:
        ConfigError: naming the option, its value and the choices.

    >>> check_choice("reduction", "avg", ("mean", "sum"))
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: reduction must be one of 'mean', 'sum', not 'avg'
    """
    if value not in choices:
        raise ConfigError(f"{option} must be one of {', '.join(map(repr, choices))}, not {value!r}")


def check_options(options: Any) -> None:
    """Check each field of a dataclass that is a ``Literal`` or annotated with a :class:`Bound`.

    Raises:
        ConfigError: as :func:`check_number` and :func:`check_choice`.
    """
    for name, hint in _hints(type(options)).items():  # type: ignore[arg-type]
        value: Any = getattr(options, name)
        for bound in getattr(hint, "__metadata__", ()):
            for each in value if isinstance(value, tuple | list) else [value]:
                if each is not None:
                    check_number(name, each, bound)
        if get_origin(hint) is Literal:
            check_choice(name, value, get_args(hint))


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)
