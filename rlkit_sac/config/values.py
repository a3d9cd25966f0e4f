"""Values of options, read by their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from unicodedata import category

from pydantic import ConfigDict, TypeAdapter, ValidationError

from rlkit_sac.config.bounds import limits_of, without_limits
from rlkit_sac.config.yaml_file import read_value_text
from rlkit_sac.errors import one_line

_OUT_OF_RANGE = {"greater_than", "greater_than_equal", "less_than", "less_than_equal"}
_OF_TYPE = ("_type", "none_required", "literal_error")


@cache
def _adapter(hint: Any, *, allow_inf_nan: bool = False) -> TypeAdapter[Any]:
    return TypeAdapter(hint, config=ConfigDict(strict=True, allow_inf_nan=allow_inf_nan))


def read_value(given: Any, hint: Any, *, is_text: bool = False) -> Any:
    """The value of an option as its type wants it, even beyond the limits of its type.

    Integers may be written as floats, such as 1e6; nothing else is converted.

    Args:
        given: what a file or a program gave, or a text of the command line.
        hint: type of the option.
        is_text: whether it is such a text: a string if the type is one, YAML otherwise.

    Raises:
        TypeError: if it is of another type, saying what was wanted and what came; and how to write
            a list whose brackets are missing.

    >>> read_value("[64, 1e2]", list[int], is_text=True)
    [64, 100]
    >>> read_value("64,64", list[int], is_text=True)
    Traceback (most recent call last):
        ...
    TypeError: expected a list, each item an integer, got '64,64'; write '[64,64]'
    """
    if not is_text:
        return _validated(given, hint, given)[0]
    try:
        return _validated(_from_text(given, hint), hint, given)[0]
    except TypeError as error:
        listed = f"[{given.strip('()')}]"
        try:
            _validated(_from_text(listed, hint), hint, listed)
        except TypeError:
            raise error from None
        raise TypeError(f"{error}; write '{listed}'") from None


def value_error(value: Any, hint: Any) -> TypeError | ValueError | None:
    """What is wrong with the value of an option: its type, or the first of its items.

    What no number's limit is, such as ``Field(min_length=1)``, is said as pydantic says it.

    >>> from rlkit_sac.config.bounds import PositiveInt
    >>> value_error([64, 0], list[PositiveInt])
    ValueError('must be >= 1, got 0')
    """
    try:
        return _validated(value, hint, value)[1]
    except TypeError as error:
        return error


def _validated(value: Any, hint: Any, given: Any) -> tuple[Any, ValueError | None]:
    """The value as its type wants it, and what is wrong with it where it is of that type."""
    for candidate in (value, _with_integers(value)):
        try:
            _adapter(without_limits(hint), allow_inf_nan=True).validate_python(candidate)
        except ValidationError:
            continue
        try:
            found = _adapter(hint).validate_python(candidate)
            return found, _unfit(found, ("Cc", "Cs", "Zl", "Zp"))
        except ValidationError as error:
            problems = error.errors()
        # The members of a union that are other types have errors too.
        of_value = [each for each in problems if not each["type"].endswith(_OF_TYPE)]
        return candidate, _limit_error(hint, (of_value or problems)[0])
    raise TypeError(f"expected {describe(hint)}, got {shown(given)}")


def _unfit(value: Any, refused: Sequence[str]) -> ValueError | None:
    """Why a value is refused: an integer beyond 64 bits, or characters that cannot be printed.

    Args:
        value: of any option.
        refused: categories of characters; in lists and mappings only lone surrogates are.
    """
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        return next(filter(None, (_unfit(item, ["Cs"]) for item in value)), None)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return ValueError(f"must be an integer of 64 bits, got {shown(value)}")
    if isinstance(value, str) and any(category(each) in refused for each in value):
        return ValueError(f"must be a text without control characters, got {shown(value)}")
    return None


def _limit_error(hint: Any, problem: Mapping[str, Any]) -> ValueError:
    kind, value = problem["type"], problem["input"]
    if kind == "finite_number":
        return ValueError(f"must be a finite number, got {value}")
    if kind in _OUT_OF_RANGE and (limits := limits_of(hint)):
        return ValueError(f"must be {limits}, got {shown(value)}")
    text = " ".join(problem["msg"].split())
    return ValueError(f"{text}, got {shown(value)}")


def _from_text(text: str, hint: Any) -> Any:
    hint = without_limits(hint)
    types = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if str in types:
        return None if text == "null" and type(None) in types else text
    return read_value_text(text)


def _with_integers(value: Any) -> Any:
    """A value whose whole numbers are integers, also as keys, which JSON makes texts."""
    if isinstance(value, list | tuple):
        return [_with_integers(item) for item in value]
    if isinstance(value, dict):
        return {
            int(key) if isinstance(key, str) and key.isdecimal() else _with_integers(key): (
                _with_integers(item)
            )
            for key, item in value.items()
        }
    return int(value) if isinstance(value, float) and value.is_integer() else value


def describe(hint: Any) -> str:
    """A type in words.

    >>> describe(list[int] | Literal["auto"] | None)
    'a list, each item an integer or auto or null'
    """
    names = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}
    names |= {type(None): "null", Any: "any value"}
    if hint in names:
        return names[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return describe(arguments[0])
    if origin is Literal:
        choices = ", ".join(map(str, arguments))
        return f"one of {choices}" if len(arguments) > 1 else choices
    if origin is list:
        return f"a list, each item {describe(arguments[0])}"
    if origin is dict:
        name = "integer" if arguments[0] is int else "name"
        values = "" if arguments[1] is Any else f", each value {describe(arguments[1])}"
        return f"a mapping {{{name}: value}}{values}"
    return " or ".join(describe(argument) for argument in arguments)


def shown(value: Any) -> str:
    """A value as YAML spells it, strings in quotes; the middle of a long one is left out.

    >>> shown(None), shown("a")
    ('null', "'a'")
    """
    names = {None: "null", True: "true", False: "false"}
    if value is None or isinstance(value, bool):
        return names[value]
    return one_line(repr(value), most=200)
