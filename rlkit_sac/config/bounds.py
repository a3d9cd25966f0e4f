"""Numbers with limits, as types of options."""

from __future__ import annotations

from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import Field
from pydantic.fields import FieldInfo

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
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return without_limits(arguments[0])
    if not arguments or origin is Literal:
        return hint
    inner = tuple(map(without_limits, arguments))
    return reduce(or_, inner) if origin is UnionType else origin[inner]
