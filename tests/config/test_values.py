"""Values are read by the type of their option, and by nothing else."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field

from rlkit_sac.config.options import PositiveFloat, limits_of, read_value, value_error

Share = Annotated[float, Field(gt=0, le=1)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "must be greater than 0, got 0.0"),
        (2, "must be less than or equal to 1, got 2"),
        (float("nan"), "must be a finite number, got nan"),
        ("x", "must be a valid number, got 'x'"),
    ],
)
def test_what_is_wrong(value: Any, text: str) -> None:
    assert str(value_error(value, Share)) == text
    with pytest.raises((TypeError, ValueError), match="must be"):
        read_value(value, Share)
    assert value_error(1.0, Share) is None


def test_a_limit_is_named_wherever_its_number_stands() -> None:
    hint = PositiveFloat | list[PositiveFloat | None] | None
    assert limits_of(hint) == "> 0"
    assert str(value_error([0.1, 0.0], hint)) == "must be greater than 0, got 0.0"
    numbers = {1: [1.0], 2: [float("nan")]}
    assert str(value_error(numbers, dict[int, list[float]])) == "must be a finite number, got nan"
