"""The ranges of the numbers among the options of losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import NamedTuple

from torch import Tensor

from rlkit_sac.errors import ConfigError


class _Range(NamedTuple):
    text: str
    contains: Callable[[float], bool]


_UNIT = _Range("in [0, 1]", lambda value: 0 <= value <= 1)
_NOT_NEGATIVE = _Range("a finite number >= 0", lambda value: 0 <= value < math.inf)
_POSITIVE = _Range("a finite number > 0", lambda value: 0 < value < math.inf)
_COUNT = _Range("an integer >= 0", lambda value: 0 <= value < math.inf and value == int(value))
_FINITE = _Range("a finite number", math.isfinite)
_RANGES = {
    "beta": _NOT_NEGATIVE,
    "burn_in": _COUNT,
    "critic_coef": _NOT_NEGATIVE,
    "dqda_clipping": _POSITIVE,
    "gamma": _UNIT,
    "lmbda": _UNIT,
    "policy_coef": _NOT_NEGATIVE,
    "qvalue_coef": _NOT_NEGATIVE,
    "reward_scale": _FINITE,
    "target_entropy": _FINITE,
    "truncation_threshold": _NOT_NEGATIVE,
    "trust_region_delta": _NOT_NEGATIVE,
}


def check_number(option: str, value: object) -> None:
    """Refuse a number outside of the range of an option.

    Args:
        option: of a loss.
        value: a number, or a tensor of one element.

    Raises:
        ConfigError: naming the option, its value and the range.

    >>> check_number("gamma", 1.5)
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: gamma must be in [0, 1], not 1.5
    """
    wanted = _RANGES[option]
    is_number = isinstance(value, Real) or (isinstance(value, Tensor) and value.numel() == 1)
    if not (is_number and wanted.contains(float(value))):  # type: ignore[arg-type]
        raise ConfigError(f"{option} must be {wanted.text}, not {value!r}")


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
