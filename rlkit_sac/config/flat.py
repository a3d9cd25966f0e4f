"""A configuration as one level of dotted keys, and the keys of earlier versions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

#: Dotted keys of today by those of before.
RENAMED = {"update.products": "update.matmul_precision"}


def flat_config(config: Any, prefix: str = "") -> dict[str, Any]:
    """The options of a run by dotted key, without ``resume``, which does not describe the run.

    All are JSON values: keys of mappings become strings.

    Args:
        config: a (nested) configuration dataclass.
        prefix: put before each key.

    >>> from rlkit_sac.config import CheckpointConfig
    >>> flat_config(CheckpointConfig(), "checkpoint.")
    {'checkpoint.interval': 5000, 'checkpoint.keep': 2}
    """
    flat: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        key, value = prefix + field.name, getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            flat |= flat_config(value, f"{key}.")
        elif key != "resume":
            flat[key] = _with_string_keys(value)
    return flat


def with_current_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a stored run under their names of today.

    Args:
        options: values by dotted key.

    >>> with_current_names({"seed": 3, "update.products": "exact"})
    {'seed': 3, 'update.matmul_precision': 'exact'}
    """
    return {RENAMED.get(key, key): value for key, value in options.items()}


def _with_string_keys(value: Any) -> Any:
    """A value whose mappings have string keys, at any depth."""
    if not isinstance(value, dict):
        return value
    return {str(name): _with_string_keys(item) for name, item in value.items()}
