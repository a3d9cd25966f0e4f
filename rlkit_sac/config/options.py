"""Options: their types and bounds, the values that pydantic checks, and conditions between them."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from rlkit_sac.errors import ConfigError, refuse

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


def without_limits(hint: Any) -> Any:
    """The type without what is required of its values besides, also inside of others.

    >>> without_limits(list[Seed] | None)
    list[int] | None
    """
    return get_type_hints(SimpleNamespace(__annotations__={"of": hint}))["of"]


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


_OF_TYPE = ("_type", "none_required", "literal_error")
_PREFIX = "Input should be "


def read_value(given: Any, hint: Any) -> Any:
    """The value of an option as its type wants it.

    Integers may be written as floats, such as 1e6; nothing else is converted.

    Raises:
        TypeError: if it is of another type, saying what was wanted and what came.
        ValueError: the same of a value of the type.

    >>> read_value([64.0, 1e2], list[int])
    [64, 100]
    >>> read_value("fast", float)
    Traceback (most recent call last):
        ...
    TypeError: must be a valid number, got 'fast'
    """
    if dataclasses.is_dataclass(hint):
        raise TypeError(f"must be a section of options, got {given!r}")
    for candidate in (given, _with_integers(given)):
        try:
            _adapter(without_limits(hint), allow_inf_nan=True).validate_python(candidate)
        except ValidationError as error:
            of_type = error
            continue
        try:
            return _adapter(hint).validate_python(candidate)
        except ValidationError as error:
            raise ValueError(_describe(error)) from None
    raise TypeError(_describe(of_type))


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
    """A value of Python as JSON has it: tuples and NumPy arrays as lists, paths as text.

    Raises:
        TypeError: for anything else.

    >>> from pathlib import Path
    >>> plain_value([("no", 1), Path("runs")])
    [['no', 1], 'runs']
    """
    try:
        return to_jsonable_python(value, fallback=lambda each: each.tolist())
    except (AttributeError, ValueError) as error:
        raise TypeError(f"must be numbers, texts, lists and mappings, got {value!r}") from error


def value_error(value: Any, hint: Any) -> TypeError | ValueError | None:
    """What is wrong with the value of an option, or with the first of its items.

    >>> value_error([64, 0], list[PositiveInt])
    ValueError('must be greater than or equal to 1, got 0')
    """
    try:
        read_value(value, hint)
    except (TypeError, ValueError) as error:
        return error
    return None


def check_value(name: str, value: Any, hint: Any) -> None:
    """Refuse a value, or a number of a tensor, that an option cannot have.

    Raises:
        ConfigError: naming the option.

    >>> check_value("gamma", 1.5, UnitFloat)
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: gamma must be less than or equal to 1, got 1.5
    """
    if error := value_error(plain_value(value), hint):
        raise ConfigError(f"{name} {error}")


@cache
def _adapter(hint: Any, *, allow_inf_nan: bool = False) -> TypeAdapter[Any]:
    return TypeAdapter(hint, config=ConfigDict(strict=True, allow_inf_nan=allow_inf_nan))


def _with_integers(value: Any) -> Any:
    """A value whose whole numbers are integers, also as keys, which JSON makes texts."""
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    if isinstance(value, dict):
        keys = [int(key) if str(key).isdecimal() else _with_integers(key) for key in value]
        return dict(zip(keys, map(_with_integers, value.values()), strict=True))
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _describe(error: ValidationError) -> str:
    """Pydantic's words; of the members of a union those that the value is of, or all."""
    problems = error.errors(include_url=False)
    of_value = [each for each in problems if not each["type"].endswith(_OF_TYPE)]
    found = of_value[:1] or [each for each in problems if each["type"] != "none_required"]
    texts = dict.fromkeys(each["msg"].removeprefix(_PREFIX) for each in found)
    must = "must be " if found[0]["msg"].startswith(_PREFIX) else ""
    return f"{must}{' or '.join(texts)}, got {found[0]['input']!r}"


_TEMPERATURE = ("alpha_init", "target_entropy")


def schedule_errors(section: Any) -> list[tuple[str, str]]:
    """List schedules of options that cannot change, or with values out of range.

    Args:
        section: of the loss or of the update, with ``schedules``, and the names of options that may
            have one in ``scheduled``; learning rates may, too.

    >>> from rlkit_sac.config import UpdateConfig
    >>> schedule_errors(UpdateConfig(schedules={"lr_actr": {0: 1e-3}}))
    [('schedules', "there is no schedule of 'lr_actr'; did you mean lr_actor?")]
    """
    return [
        ("schedules", problem)
        for name, points in section.schedules.items()
        for problem in _problems(section, name, points)
    ]


def _is_rate(name: str) -> bool:
    return name == "lr" or name.startswith("lr_")


def _problems(section: Any, name: str, points: Mapping[int, float]) -> list[str]:
    names = [name for name in vars(section) if _is_rate(name) or name in section.scheduled]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        advice = f"did you mean {near[0]}?" if near else f"choose among {', '.join(names)}"
        return [f"there is no schedule of {name!r}; {advice}"]
    is_fixed = getattr(section, "fixed_alpha", None)
    if name in _TEMPERATURE and is_fixed != (name == "alpha_init"):
        return [f"{name} can change only where fixed_alpha is {str(not is_fixed).lower()}"]
    if not points:
        return [f"{name} needs a value at one number of frames at least"]
    found = [f"{name} must name frames from 0 on, got {at}" for at in points if at < 0]
    hint = get_type_hints(type(section), include_extras=True)[name]
    for value in points.values():
        if value == 0 and _is_rate(name):
            continue  # a schedule may end at 0
        if error := value_error(value, hint):
            found.append(f"{name} {error}")
        elif value == 0 and name == "dqda_clipping":
            found.append("dqda_clipping must stay above 0")
    return found


def config_errors(config: Any, wrong: Collection[str] = ()) -> list[tuple[str, str]]:
    """List all that is wrong in a configuration, as pairs of dotted key and message.

    Every field must be of its type and within its limits, and every number finite. A section may
    add a method ``errors()`` for conditions between its fields, which returns such pairs.

    Args:
        config: an instance of a (nested) configuration dataclass.
        wrong: keys whose values could not be read and are those of the defaults; conditions that
            depend on them are skipped.

    >>> from rlkit_sac.config import LossConfig
    >>> config_errors(LossConfig(gamma=1.5))
    [('gamma', 'must be less than or equal to 1, got 1.5')]
    """
    errors = {
        key: error
        for key, option in options_of(config).items()
        if (error := value_error(option.value, option.hint)) is not None
    }
    found = [(key, str(error)) for key, error in errors.items()]
    if any(isinstance(error, TypeError) for error in errors.values()):
        return found  # conditions cannot be computed with values of other types

    def is_wrong(name: str) -> bool:
        """Whether a field, or one inside of a section or mapping, has an error already."""
        keys = [*wrong, *(key for key, _ in found)]
        return any(key == name or key.startswith(f"{name}.") for key in keys)

    for prefix, section in sections_of(config):
        pairs = section.errors() if hasattr(section, "errors") else []
        found += [(prefix + key, text) for key, text in pairs if not is_wrong(prefix + key)]
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
