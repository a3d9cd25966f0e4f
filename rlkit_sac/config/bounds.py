"""Numbers with limits, as types of options."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, get_args

from pydantic import Field
from pydantic.fields import FieldInfo

PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
UnitFloat = Annotated[float, Field(ge=0, le=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
"""The seeds that NumPy, PyTorch and Gymnasium all accept."""

_SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


def limits_of(hint: Any) -> str:
    """The limits of the numbers in a type, also inside of unions, lists and mappings.

    >>> limits_of(list[Seed] | None), limits_of(str)
    ('>= 0 and < 4294967296', '')
    """
    found = [
        f"{_SIGNS[name]} {limit}"
        for field in getattr(hint, "__metadata__", ())
        if isinstance(field, FieldInfo)
        for bound in field.metadata
        for name, limit in dataclasses.asdict(bound).items()
    ]
    found += [limits for each in get_args(hint) if (limits := limits_of(each))]
    return " and ".join(dict.fromkeys(found))
