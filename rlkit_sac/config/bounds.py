"""Ranges and conditions of a configuration, declared in its dataclasses, checked all at once."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from rlkit_sac.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class Bound:
    """A range that a number must lie in, put on a type with ``typing.Annotated``.

    Args:
        gt: exclusive lower limit, or ``None``.
        ge: inclusive lower limit, or ``None``.
        lt: exclusive upper limit, or ``None``.
        le: inclusive upper limit, or ``None``.

    >>> unit = Bound(gt=0, le=1)
    >>> str(unit), unit.contains(1.0), unit.contains(0.0)
    ('> 0 and <= 1', True, False)
    """

    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None

    def contains(self, value: float) -> bool:
        """Say whether ``value`` lies in the range; NaN lies in none."""
        return (
            not math.isnan(value)
            and (self.gt is None or value > self.gt)
            and (self.ge is None or value >= self.ge)
            and (self.lt is None or value < self.lt)
            and (self.le is None or value <= self.le)
        )

    def __str__(self) -> str:
        limits = {">": self.gt, ">=": self.ge, "<": self.lt, "<=": self.le}
        return " and ".join(f"{sign} {x}" for sign, x in limits.items() if x is not None)


PositiveInt = Annotated[int, Bound(ge=1)]
NonNegativeInt = Annotated[int, Bound(ge=0)]
PositiveFloat = Annotated[float, Bound(gt=0)]
NonNegativeFloat = Annotated[float, Bound(ge=0)]
Seed = Annotated[int, Bound(ge=0, lt=2**32)]
"""The seeds that NumPy, PyTorch and Gymnasium all accept."""


def bounds_of(hint: Any) -> list[Bound]:
    """Every `Bound` found in a type, also inside unions, lists and dictionary values.

    >>> [str(bound) for bound in bounds_of(PositiveInt | list[PositiveInt] | None)]
    ['>= 1']
    """
    found = []
    if get_origin(hint) is Annotated:
        found += [item for item in hint.__metadata__ if isinstance(item, Bound)]
    for argument in get_args(hint):
        found += bounds_of(argument)
    return list(dict.fromkeys(found))


@dataclasses.dataclass(frozen=True)
class Check:
    """A condition that takes more than the options themselves: a device, a task, a folder.

    Args:
        reads: the fields and sections it depends on, as dotted keys; errors name the first. It
            does not run where one of them is wrong already.
        run: raises `ConfigError`, with one line for each thing that is wrong.

    >>> Check(("device",), lambda: None).reads
    ('device',)
    """

    reads: tuple[str, ...]
    run: Callable[[], object]


def config_errors(config: Any, wrong: Collection[str] = ()) -> list[tuple[str, str]]:
    """List all that is wrong in a configuration, as pairs of dotted key and message.

    A range is a `Bound` on the field's type; every ``float`` must also be finite. A dataclass
    may add a method ``errors()`` for conditions between its fields, which returns such pairs, and
    a method ``checks()`` for those that need the machine or the task, which returns `Check` s.

    Args:
        config: an instance of a (nested) configuration dataclass.
        wrong: keys whose values could not be read and are those of the defaults; conditions that
            depend on them are skipped.

    >>> from rlkit_sac.config import LossConfig
    >>> config_errors(LossConfig(gamma=1.5))
    [('gamma', 'must be >= 0 and <= 1, got 1.5')]
    """
    found: list[tuple[str, str]] = []
    hints = get_type_hints(type(config), include_extras=True)
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            prefix = f"{field.name}."
            inner = [key.removeprefix(prefix) for key in wrong if key.startswith(prefix)]
            found += [(prefix + key, text) for key, text in config_errors(value, inner)]
            continue
        bounds = bounds_of(hints[field.name])
        for number in _numbers(value):
            if not all(bound.contains(number) for bound in bounds):
                limits = " and ".join(map(str, bounds))
                found.append((field.name, f"must be {limits}, got {number}"))
            elif not math.isfinite(number) and hints[field.name] != dict[str, Any]:
                found.append((field.name, f"must be a finite number, got {number}"))

    def is_wrong(name: str) -> bool:
        """Whether a field, or one inside of a section or mapping, has an error already."""
        keys = [*wrong, *(key for key, _ in found)]
        return any(key == name or key.startswith(f"{name}.") for key in keys)

    if hasattr(config, "errors"):
        found += [(key, text) for key, text in config.errors() if not is_wrong(key)]
    for check in config.checks() if hasattr(config, "checks") else ():
        if any(is_wrong(name) for name in check.reads):
            continue
        try:
            check.run()
        except ConfigError as error:
            found += [(check.reads[0], line) for line in str(error).splitlines()]
    return found


def check_config(config: Any) -> None:
    """Raise one error with all that is wrong in a configuration.

    Args:
        config: as in `config_errors`.

    Raises:
        ConfigError: with one line for each problem, which begins with the dotted key.

    >>> from rlkit_sac.config import LossConfig
    >>> check_config(LossConfig(gamma=1.5))
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: gamma: must be >= 0 and <= 1, got 1.5
    """
    problems = [f"{key}: {text}" for key, text in config_errors(config)]
    if problems:
        raise ConfigError("\n".join(problems))


def _numbers(value: Any) -> list[float]:
    """The numbers of a value, also in lists and mappings at any depth."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        return [number for item in value for number in _numbers(item)]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return [value] if is_number else []
