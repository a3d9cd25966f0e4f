"""A configuration as one level of dotted keys."""

from __future__ import annotations

import dataclasses
from typing import Any


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


def _with_string_keys(value: Any) -> Any:
    """A value whose mappings have string keys, at any depth."""
    if not isinstance(value, dict):
        return value
    return {str(name): _with_string_keys(item) for name, item in value.items()}
