"""Options: their types and bounds, the values that pydantic checks, and conditions between them."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from itertools import groupby
from os import PathLike, fspath
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from typing_extensions import TypedDict

from rlkit_sac.errors import refuse

PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
ModestInt = Annotated[int, Field(ge=1, le=1_000)]
"""A count of modules that are built one by one, such as critics."""
Widths = Annotated[list[PositiveInt], Field(max_length=1_000)]
UnitFloat = Annotated[float, Field(ge=0, le=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
"""The seeds that NumPy, PyTorch and Gymnasium all accept."""

_SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


def limits_of(hint: Any) -> str:
    """The limits of the numbers in a type, also inside of unions, lists and mappings.

    >>> limits_of(list[Seed] | None), limits_of(str)
    ('>= 0 and < 4294967296', '')
    """
    found = []
    for each in getattr(hint, "__metadata__", ()):
        for bound in each.metadata if isinstance(each, FieldInfo) else [each]:
            limits = {sign: getattr(bound, name, None) for name, sign in _SIGNS.items()}
            found += [f"{sign} {limit}" for sign, limit in limits.items() if limit is not None]
    found += [inner for each in get_args(hint) if (inner := limits_of(each))]
    return " and ".join(dict.fromkeys(found))


@dataclasses.dataclass(frozen=True)
class Option:
    """One option of a configuration: a field of one of its sections."""

    section: Any
    name: str
    hint: Any
    """Type of the field."""

    @property
    def value(self) -> Any:
        """What the option is set to."""
        return getattr(self.section, self.name)


def sections_of(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The sections of a configuration, inner ones first, each after the prefix of its keys.

    Args:
        config: a (nested) configuration dataclass.
        prefix: put before each prefix.

    >>> from rlkit_sac.runs import RunConfig
    >>> [prefix for prefix, _ in sections_of(RunConfig())]
    ['env.', 'collector.', 'workers.', ..., '']
    """
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            yield from sections_of(value, f"{prefix}{field.name}.")
    yield prefix, config


def options_of(config: Any) -> dict[str, Option]:
    """The options of a configuration by dotted key.

    Args:
        config: a (nested) configuration dataclass.

    >>> from rlkit_sac.config import CheckpointConfig
    >>> {key: option.value for key, option in options_of(CheckpointConfig()).items()}
    {'interval': 5000, 'keep': 2}
    """
    return {
        f"{prefix}{name}": Option(section, name, hint)
        for prefix, section in sections_of(config)
        for name, hint in get_type_hints(type(section), include_extras=True).items()
        if get_origin(hint) is not ClassVar and name in vars(section)
        if not dataclasses.is_dataclass(getattr(section, name))
    }


def flat_config(config: Any) -> dict[str, Any]:
    """The options of a run by dotted key, without ``resume``, which does not describe the run.

    Args:
        config: a (nested) configuration dataclass.

    >>> from rlkit_sac.config import CheckpointConfig
    >>> flat_config(CheckpointConfig())
    {'interval': 5000, 'keep': 2}
    """
    options = options_of(config)
    options.pop("resume", None)
    return {key: option.value for key, option in options.items()}


@dataclasses.dataclass(frozen=True, eq=False)
class PythonObject:
    """What a file of options holds of an object that has no place there; it equals any object."""

    text: str

    def __eq__(self, other: object) -> bool:
        return True


def described(value: Any) -> Iterator[PythonObject]:
    """The objects in a value of which there is a description alone.

    >>> list(described({"size": 3, "make": [PythonObject("<function make>")]}))
    [PythonObject(text='<function make>')]
    """
    if isinstance(value, PythonObject):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from described(each)


def plain_value(value: Any) -> Any:
    """A value of Python as YAML has it: arrays, tensors and tuples as lists, paths as texts.

    Whole numbers are integers, such as 1e6, also as keys, which JSON makes texts.

    >>> from pathlib import Path
    >>> plain_value([("no", 1e2), Path("runs"), {"0": 0.5}])
    [['no', 100], 'runs', {0: 0.5}]
    """
    if isinstance(value, Mapping):
        return {
            int(key) if str(key).isdecimal() else plain_value(key): plain_value(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if hasattr(value, "tolist"):
        return plain_value(value.tolist())
    if isinstance(value, PathLike):
        return fspath(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def read_values(
    hints: Mapping[str, Any], values: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Read the values of options by their types, all at once; nothing but integers is converted.

    Args:
        hints: the types by dotted key.
        values: as :func:`plain_value` makes them, by dotted key; options may be missing.

    Returns:
        The values that are right, and what is wrong with the others, by dotted key: of an option,
        of an entry of a mapping, or an unknown one.

    >>> read_values({"num_cells": list[int], "gamma": UnitFloat}, {"num_cells": [64], "gamma": 2})
    ({'num_cells': [64]}, {'gamma': 'must be less than or equal to 1, got 2'})
    """
    adapter = _adapter(tuple(hints.items()))
    try:
        return adapter.validate_python(values), {}
    except ValidationError as error:
        problems, order = error.errors(include_url=False), list(values)
    problems.sort(key=lambda problem: order.index(str(problem["loc"][0])))
    wrong = {problem["loc"][0] for problem in problems}
    right = {key: value for key, value in values.items() if key not in wrong}

    def dotted_key(problem: ErrorDetails) -> str:
        key, *inside = map(str, problem["loc"])
        is_entry = inside and get_origin(hints[key]) is dict
        return f"{key}.{inside[0]}" if is_entry else key

    errors = {key: _describe([*group]) for key, group in groupby(problems, dotted_key)}
    return adapter.validate_python(right), errors


@cache
def _adapter(hints: tuple[tuple[str, Any], ...]) -> TypeAdapter[dict[str, Any]]:
    make: Any = TypedDict
    options = make("Options", dict(hints), total=False)
    options.__pydantic_config__ = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    return TypeAdapter(options)


def _describe(problems: list[ErrorDetails]) -> str:
    """Pydantic's words on the innermost value that is wrong, for each type of a union."""
    value = max(problems, key=lambda problem: len(problem["loc"]))["input"]
    texts = dict.fromkeys(each["msg"] for each in problems if each["input"] is value)
    text = " or ".join(texts).replace(" or Input should be ", " or ")
    is_row = isinstance(value, str) and "," in value and "list" in text
    advice = f"; write '[{value.strip('()')}]'" if is_row else ""
    return f"{text.replace('Input should', 'must')}, got {value!r}{advice}"


def check_values(hints: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of options, also of NumPy and PyTorch, as their types want them.

    Raises:
        ConfigError: with a line for each that is wrong.

    >>> check_values({"gamma": UnitFloat}, {"gamma": 1.5})
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: gamma: must be less than or equal to 1, got 1.5
    """
    plain = {key: plain_value(value) for key, value in values.items()}
    checked, errors = read_values(hints, plain)
    refuse([f"{key}: {text}" for key, text in errors.items()])
    return checked


def schedule_errors(section: Any) -> Iterator[tuple[str, str]]:
    """Yield the schedules of options that cannot change, or with values out of range.

    Args:
        section: of the loss or of the update, with ``schedules``, and the names of options that may
            have one in ``scheduled``; learning rates may, too.

    >>> from rlkit_sac.config import UpdateConfig
    >>> list(schedule_errors(UpdateConfig(schedules={"lr_actr": {0: 1e-3}})))
    [('schedules', "there is no schedule of 'lr_actr'; did you mean lr_actor?")]
    """
    hints = get_type_hints(type(section), include_extras=True)
    rates = [name for name in hints if name == "lr" or name.startswith("lr_")]
    names = [name for name in vars(section) if name in (*rates, *section.scheduled)]
    is_fixed = getattr(section, "fixed_alpha", None)
    for name, points in section.schedules.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            advice = f"did you mean {near[0]}?" if near else f"choose among {', '.join(names)}"
            problems = [f"there is no schedule of {name!r}; {advice}"]
        elif name in ("alpha_init", "target_entropy") and is_fixed != (name == "alpha_init"):
            problems = [f"{name} can change only where fixed_alpha is {str(not is_fixed).lower()}"]
        elif not points:
            problems = [f"{name} needs a value at one number of frames at least"]
        else:
            problems = [f"{name} must name frames from 0 on, got {at}" for at in points if at < 0]
            # A schedule of a learning rate may end at 0.
            checked = {at: value for at, value in points.items() if value or name not in rates}
            hint: Any = hints[name]
            _, errors = read_values({name: dict[int, hint]}, {name: checked})
            problems += [f"{name} {text}" for text in errors.values()]
            if name == "dqda_clipping" and 0 in points.values():
                problems.append("dqda_clipping must stay above 0")
        yield from (("schedules", problem) for problem in problems)


def config_errors(config: Any, wrong: Collection[str] = ()) -> list[tuple[str, str]]:
    """List all that is wrong in a configuration, as pairs of dotted key and message.

    Every field must be of its type and within its limits, and every number finite. A section may
    add a method ``errors()`` for conditions between its fields, which gives such pairs.

    Args:
        config: an instance of a (nested) configuration dataclass.
        wrong: keys whose values could not be read and are those of the defaults; conditions of
            their sections are skipped, as those of options that have an error.

    >>> from rlkit_sac.config import LossConfig
    >>> config_errors(LossConfig(gamma=1.5))
    [('gamma', 'must be less than or equal to 1, got 1.5')]
    """
    options = options_of(config)
    hints = {key: option.hint for key, option in options.items()}
    _, errors = read_values(hints, {key: option.value for key, option in options.items()})
    found = [*errors.items()]
    for prefix, section in sections_of(config):
        if hasattr(section, "errors") and not any(
            key.startswith(prefix) for key in (*wrong, *errors)
        ):
            found += [(prefix + key, text) for key, text in section.errors()]
    return found


def check_config(config: Any) -> None:
    """Raise one error with all that is wrong in a configuration.

    Args:
        config: as in :func:`config_errors`.

    Raises:
        ConfigError: with one line for each problem, which begins with the dotted key.

    >>> from rlkit_sac.config import LossConfig
    >>> check_config(LossConfig(gamma=1.5))
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: gamma: must be less than or equal to 1, got 1.5
    """
    refuse([f"{key}: {text}" for key, text in config_errors(config)])
