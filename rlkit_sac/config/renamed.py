"""Options that had another name in an earlier version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Dotted keys of today by those of before.
RENAMED = {"update.products": "update.matmul_precision"}


def with_current_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a stored run under their names of today.

    Args:
        options: values by dotted key.

    >>> with_current_names({"seed": 3, "update.products": "exact"})
    {'seed': 3, 'update.matmul_precision': 'exact'}
    """
    return {RENAMED.get(key, key): value for key, value in options.items()}
