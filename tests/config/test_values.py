"""Values are read by the type of their option, and by nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_origin, get_type_hints

import annotated_types
import numpy as np
import pydantic
import pytest
from pydantic import Field

from rlkit_sac.config.bounds import PositiveFloat, PositiveInt, limits_of
from rlkit_sac.config.flat import Option
from rlkit_sac.config.help import format_help
from rlkit_sac.config.values import describe, read_value, value_error

Share = Annotated[float, Field(gt=0, le=1)]


@pytest.mark.parametrize(("value", "inside"), [(0.0, False), (0.5, True), (1.0, True), (2, False)])
def test_limits(value: float, inside: bool) -> None:
    error = value_error(value, Share)
    assert (error is None) is inside
    assert inside or str(error) == f"must be > 0 and <= 1, got {value}"
    assert read_value(value, Share) == value


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (int, 1e6, 1_000_000),
        (PositiveInt | None, 2.0, 2),
        (list[PositiveInt], [64.0, 32], [64, 32]),
        (list[int], (64, 32), [64, 32]),
        (dict[int, list[float]], {"50": [1]}, {50: [1.0]}),
        (dict[int, float], {1e3: 0.5}, {1000: 0.5}),
        (dict[str, int], {"target": 2.0}, {"target": 2}),
        (float, 3, 3.0),
        (float, np.float64(0.5), 0.5),
        (Literal["auto"] | bool, True, True),
        (bool | list[str], ["actor"], ["actor"]),
        (dict[str, Any], {"a": float("inf"), "b": 2.0}, {"a": float("inf"), "b": 2.0}),
    ],
)
def test_values_of_the_type(hint: Any, value: Any, expected: Any) -> None:
    found = read_value(value, hint)
    assert found == expected
    assert repr(found) == repr(expected)  # 2 and 2.0 are equal, and True and 1


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, True),
        (int, "3"),
        (int, 1.5),
        (int, float("inf")),
        (float, True),
        (float, "0.5"),
        (bool, 1),
        (bool, "true"),
        (str, 3),
        (str, None),
        (Literal["auto"] | bool, 1),
        (list[int], 3),
        (list[int], [None]),
        (dict[str, Any], {1: 2}),
        (dict[int, float], {"a": 2.0}),
    ],
)
def test_nothing_else_is_converted(hint: Any, value: Any) -> None:
    error = value_error(value, hint)
    assert isinstance(error, TypeError)
    assert str(error).startswith(f"expected {describe(hint)}, got ")


@pytest.mark.parametrize(
    ("text", "hint", "expected"),
    [
        ("null", str | None, None),
        ("null", str, "null"),
        ("true", str, "true"),
        ("a: b #c", str | None, "a: b #c"),
        ("010", int, 10),
        ("1e3", int, 1000),
        ("010", Any, 10),
        ("2020-01-01", Any, "2020-01-01"),
        ("'x'", Any, "'x'"),
        ("", Any, ""),
        ("{a: [1, x]}", dict[str, Any], {"a": [1, "x"]}),
        ("7", int, 7),
    ],
)
def test_texts_of_the_command_line(text: str, hint: Any, expected: Any) -> None:
    assert read_value(text, hint, is_text=True) == expected


@pytest.mark.parametrize("text", ["", " ", "# 3", "[1", "*a", "!!python/name:os.system x"])
def test_texts_that_are_no_value_are_shown_as_they_came(text: str) -> None:
    with pytest.raises(TypeError, match="expected an integer or null, got ") as caught:
        read_value(text, int | None, is_text=True)
    assert str(caught.value).endswith(repr(text))


def test_a_limit_is_named_wherever_its_number_stands() -> None:
    hint = PositiveFloat | list[PositiveFloat | None] | None
    assert limits_of(hint) == "> 0"
    assert str(value_error([0.1, 0.0], hint)) == "must be > 0, got 0.0"
    numbers = {1: [1.0], 2: [float("nan")]}
    error = value_error(numbers, dict[int, list[float]])
    assert str(error) == "must be a finite number, got nan"
    assert describe(hint) == "a number or a list, each item a number or null or null"


@pytest.mark.parametrize(("value", "first"), [([-5, 64, 0], -5), ([64, 0, -5], 0)])
def test_the_first_bad_item_is_named(value: list[int], first: int) -> None:
    assert str(value_error(value, list[PositiveInt])) == f"must be >= 1, got {first}"


@pytest.mark.parametrize("value", [["a", -1.0], [-1.0, "a"], [float("nan"), None], {"a": -1.0}])
def test_another_type_is_an_error_of_type_whatever_else_is_wrong(value: Any) -> None:
    hint = list[PositiveFloat] | None
    error = value_error(value, hint)
    assert isinstance(error, TypeError)
    assert str(error).startswith("expected a list, each item a number or null, got ")
    with pytest.raises(TypeError, match="expected a list"):
        read_value(value, hint)


def even(value: int) -> int:
    if value % 2:
        raise ValueError("must be even,\nas its halves are used")
    return value


@pytest.mark.parametrize(
    ("hint", "good", "bad", "message"),
    [
        (pydantic.PositiveInt, 1, 0, "must be > 0, got 0"),
        (pydantic.conint(gt=3, le=9), 4, 3, "must be > 3 and <= 9, got 3"),
        (annotated_types.Ge(2), 2, 1, "must be >= 2, got 1"),
        (Field(multiple_of=2), 2, 3, "Input should be a multiple of 2, got 3"),
        (Field(ge=0, multiple_of=2), 2, 3, "Input should be a multiple of 2, got 3"),
        (Field(ge=0, multiple_of=2), 2, -2, "must be >= 0, got -2"),
        (
            pydantic.AfterValidator(even),
            2,
            3,
            "Value error, must be even, as its halves are used, got 3",
        ),
        (
            Annotated[list[int], Field(min_length=1)],
            [1],
            [],
            "List should have at least 1 item after validation, not 0, got []",
        ),
        (
            Annotated[str, Field(pattern="^a+$")],
            "aa",
            "3",
            "String should match pattern '^a+$', got '3'",
        ),
    ],
)
def test_other_constraints_of_pydantic(hint: Any, good: Any, bad: Any, message: str) -> None:
    hint = hint if get_origin(hint) is Annotated else Annotated[int, hint]
    for each in (hint, hint | None, Literal["auto"] | hint):
        assert value_error(good, each) is None
        error = value_error(bad, each)
        assert isinstance(error, ValueError)
        assert str(error) == message
        for value in (good, bad):
            assert read_value(str(value), each, is_text=True) == value
    assert isinstance(value_error(None, hint), TypeError)


def test_help_shows_the_limits_of_numbers_beside_other_constraints() -> None:
    @dataclass
    class Section:
        size: Annotated[int, Field(gt=0, multiple_of=2)] = 2
        names: Annotated[list[str], Field(min_length=1)] = field(default_factory=lambda: ["a"])
        count: pydantic.PositiveInt = 1

    options = {
        name: Option(Section(), name, hint)
        for name, hint in get_type_hints(Section, include_extras=True).items()
    }
    text = " ".join(format_help(Section, options).split())
    assert "--size SIZE Must be > 0. (type: an integer, default: 2)" in text
    assert "--names NAMES (type: a list, each item a string, default: ['a'])" in text
    assert "--count COUNT Must be > 0. (type: an integer, default: 1)" in text
