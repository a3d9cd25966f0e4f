"""Values of options, which pydantic checks by their types."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from rlkit_sac.config.bounds import without_limits
from rlkit_sac.errors import ConfigError

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

    >>> from rlkit_sac.config.bounds import PositiveInt
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

    >>> from rlkit_sac.config.bounds import UnitFloat
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
