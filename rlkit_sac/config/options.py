"""Options: their types and bounds, and the checks of their values.

The sections of options are in the other files of this package; :mod:`.read` sets them from files
and from the command line.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from itertools import groupby
from os import PathLike, fspath
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import TypedDict

from rlkit_sac.errors import refuse, suggestion

PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
ModestInt = Annotated[int, Field(ge=1, le=1_000)]
"""A number of modules that are built one by one, such as critics."""
Widths = Annotated[list[PositiveInt], Field(max_length=1_000)]
UnitFloat = Annotated[float, Field(ge=0, le=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
"""A seed that NumPy, PyTorch and Gymnasium all accept."""

_SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


def limits_of(hint: Any) -> str:
    """Return the limits of the numbers in a type as text, also inside unions, lists and mappings.

    >>> limits_of(list[Seed] | None), limits_of(str)
    ('>= 0 and < 4294967296', '')
    """
    texts = [
        f"{sign} {getattr(bound, name)}"
        for annotation in getattr(hint, "__metadata__", ())
        for bound in getattr(annotation, "metadata", ())
        for name, sign in _SIGNS.items()
        if hasattr(bound, name)
    ]
    texts += filter(None, map(limits_of, get_args(hint)))
    return " and ".join(dict.fromkeys(texts))


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of a configuration: a field of one of the sections."""

    section: Any
    name: str
    hint: Any
    """The type of the field."""

    @property
    def value(self) -> Any:
        """The current value of the option."""
        return getattr(self.section, self.name)


def sections_of(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield pairs of prefix and section of a configuration, inner sections first.

    Args:
        config: a (nested) configuration dataclass.
        prefix: a text that every prefix begins with.

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
    """Return the options of a configuration by dotted key.

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
    """Return the values of all options by dotted key, except ``resume``.

    A run is described by the other options; ``resume`` says only how it was started.

    Args:
        config: a (nested) configuration dataclass.

    >>> from rlkit_sac.config import CheckpointConfig
    >>> flat_config(CheckpointConfig())
    {'interval': 5000, 'keep': 2}
    """
    return {key: option.value for key, option in options_of(config).items() if key != "resume"}


@dataclasses.dataclass(frozen=True, eq=False)
class ObjectDescription:
    """The text that a file of options holds in place of a Python object; it equals any object."""

    text: str

    def __eq__(self, other: object) -> bool:
        return True


def find_descriptions(value: Any) -> Iterator[ObjectDescription]:
    """Yield the descriptions that stand in a value in place of Python objects.

    >>> list(find_descriptions({"size": 3, "make": [ObjectDescription("<function make>")]}))
    [ObjectDescription(text='<function make>')]
    """
    if isinstance(value, ObjectDescription):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from find_descriptions(item)


def plain_value(value: Any) -> Any:
    """Convert a Python value to the types of YAML.

    Arrays, tensors and tuples become lists, paths become strings. Whole numbers such as 1e6 become
    integers, also as keys, which JSON turns into strings.

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
    """Check the values of options by their types, all at once.

    Only integers are converted, to floats.

    Args:
        hints: the types of all options by dotted key.
        values: results of :func:`plain_value` by dotted key; options may be missing.

    Returns:
        The valid values by dotted key, and the error messages by dotted key. A message may belong
        to an option, to an entry of a mapping, or to an unknown key.

    >>> read_values({"num_cells": list[int], "gamma": UnitFloat}, {"num_cells": [64], "gamma": 2})
    ({'num_cells': [64]}, {'gamma': 'must be less than or equal to 1, got 2'})
    """
    adapter = _options_adapter(tuple(hints.items()))
    try:
        return adapter.validate_python(values), {}
    except ValidationError as error:
        problems, order = error.errors(include_url=False), list(values)
    problems.sort(key=lambda problem: order.index(str(problem["loc"][0])))
    invalid = {problem["loc"][0] for problem in problems}
    valid = {key: value for key, value in values.items() if key not in invalid}

    def dotted_key(problem: ErrorDetails) -> str:
        key, *inside = map(str, problem["loc"])
        is_entry = inside and get_origin(hints[key]) is dict
        return f"{key}.{inside[0]}" if is_entry else key

    errors = {key: _error_text([*group]) for key, group in groupby(problems, dotted_key)}
    return adapter.validate_python(valid), errors


@cache
def _options_adapter(hints: tuple[tuple[str, Any], ...]) -> TypeAdapter[dict[str, Any]]:
    make: Any = TypedDict
    options = make("Options", dict(hints), total=False)
    options.__pydantic_config__ = ConfigDict(
        strict=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True
    )
    return TypeAdapter(options)


def _error_text(problems: list[ErrorDetails]) -> str:
    """Join pydantic's messages about the innermost wrong value, one for each type of a union."""
    value = max(problems, key=lambda problem: len(problem["loc"]))["input"]
    texts = dict.fromkeys(problem["msg"] for problem in problems if problem["input"] is value)
    text = " or ".join(texts).replace(" or Input should be ", " or ")
    is_row = isinstance(value, str) and "," in value and "list" in text
    advice = f"; write '[{value.strip('()')}]'" if is_row else ""
    return f"{text.replace('Input should', 'must')}, got {value!r}{advice}"


def check_values(hints: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of options, converted to their types from NumPy and PyTorch too.

    Args:
        hints: the types of all options by name.
        values: the values by name; options may be missing.

    Raises:
        ConfigError: values are wrong; the error has a line for each.

    >>> check_values({"gamma": UnitFloat}, {"gamma": 1.5})
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: gamma: must be less than or equal to 1, got 1.5
    """
    plain = {key: plain_value(value) for key, value in values.items()}
    checked, errors = read_values(hints, plain)
    refuse([f"{key}: {text}" for key, text in errors.items()])
    return checked


def schedule_errors(section: Any) -> Iterator[tuple[str, str]]:
    """Yield the errors of schedules: of options that cannot change, and of values out of range.

    Args:
        section: the section of the loss or of the update. Options that its ``scheduled`` names and
            learning rates may have an entry in its ``schedules``.

    >>> from rlkit_sac.config import UpdateConfig
    >>> list(schedule_errors(UpdateConfig(schedules={"lr_actr": {0: 1e-3}})))
    [('schedules', "there is no schedule of 'lr_actr'; did you mean lr_actor? There are ...")]
    """
    hints = get_type_hints(type(section), include_extras=True)
    rates = [name for name in hints if name == "lr" or name.startswith("lr_")]
    names = [name for name in vars(section) if name in (*rates, *section.scheduled)]
    targets = ("target_entropy", "target_kld_discrete", "target_kld_per_dim")
    fixed = getattr(section, "fixed_alpha", None)
    for name, points in section.schedules.items():
        is_fixed = fixed
        if isinstance(fixed, list):  # of the discrete and of the continuous part
            is_fixed = fixed[0 if name == "target_kld_discrete" else 1]
        if name not in names:
            problems = [f"there is no schedule of {name!r}; {suggestion(name, names)}"]
        elif name in ("alpha_init", *targets) and is_fixed != (name == "alpha_init"):
            problems = [f"{name} can change only where fixed_alpha is {str(not is_fixed).lower()}"]
        elif not points:
            problems = [f"{name} needs a value at one number of frames at least"]
        else:
            problems = [f"{name} must name frames from 0 on, got {n}" for n in points if n < 0]
            # A schedule of a learning rate may end at 0, where the option must be above.
            checked = {n: value for n, value in points.items() if value or name not in rates}
            hint: Any = hints[name]
            _, errors = read_values({name: dict[int, hint]}, {name: checked})
            problems += [f"{name} {text}" for text in errors.values()]
            if name == "dqda_clipping" and 0 in points.values():
                problems.append("dqda_clipping must stay above 0")
        yield from (("schedules", problem) for problem in problems)


def config_errors(config: Any, wrong: Collection[str] = ()) -> list[tuple[str, str]]:
    """Return all errors in a configuration, as pairs of dotted key and message.

    Every field must be of its type and within its limits, and every number finite. A section may
    have a method ``errors()``, which yields such pairs for conditions between fields.

    Args:
        config: an instance of a (nested) configuration dataclass.
        wrong: keys of values that could not be read, so that the options have their defaults. The
            conditions of a section are skipped where one of its options is wrong.

    >>> from rlkit_sac.config import LossConfig
    >>> config_errors(LossConfig(gamma=1.5))
    [('gamma', 'must be less than or equal to 1, got 1.5')]
    """
    options = options_of(config)
    hints = {key: option.hint for key, option in options.items()}
    _, errors = read_values(hints, {key: option.value for key, option in options.items()})
    problems = [*errors.items()]
    for prefix, section in sections_of(config):
        if hasattr(section, "errors") and not any(
            key.startswith(prefix) for key in (*wrong, *errors)
        ):
            problems += [(prefix + key, text) for key, text in section.errors()]
    return problems


def check_config(config: Any) -> None:
    """Refuse a configuration that has errors.

    Args:
        config: an instance of a (nested) configuration dataclass.

    Raises:
        ConfigError: the configuration has errors; each is a line that begins with the dotted key.

    >>> from rlkit_sac.config import LossConfig
    >>> check_config(LossConfig(gamma=1.5))
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: gamma: must be less than or equal to 1, got 1.5
    """
    refuse([f"{key}: {text}" for key, text in config_errors(config)])
