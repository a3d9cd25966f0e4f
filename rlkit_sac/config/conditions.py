"""Conditions of a configuration, declared in its dataclasses, checked all at once."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rlkit_sac.config.flat import options_of, sections_of
from rlkit_sac.config.values import value_error
from rlkit_sac.errors import refuse


def config_errors(config: Any, wrong: Collection[str] = ()) -> list[tuple[str, str]]:
    """List all that is wrong in a configuration, as pairs of dotted key and message.

    Every field must be of its type and within its limits, and every number finite. A section may
    add a method ``errors()`` for conditions between its fields, which returns such pairs.

    Args:
        config: an instance of a (nested) configuration dataclass.
        wrong: keys whose values could not be read and are those of the defaults; conditions that
            depend on them are skipped.

    >>> from rlkit_sac.config import LossConfig
    >>> config_errors(LossConfig(gamma=1.5))
    [('gamma', 'must be less than or equal to 1, got 1.5')]
    """
    errors = {
        key: error
        for key, option in options_of(config).items()
        if (error := value_error(option.value, option.hint)) is not None
    }
    found = [(key, str(error)) for key, error in errors.items()]
    if any(isinstance(error, TypeError) for error in errors.values()):
        return found  # conditions cannot be computed with values of other types

    def is_wrong(name: str) -> bool:
        """Whether a field, or one inside of a section or mapping, has an error already."""
        keys = [*wrong, *(key for key, _ in found)]
        return any(key == name or key.startswith(f"{name}.") for key in keys)

    for prefix, section in sections_of(config):
        pairs = section.errors() if hasattr(section, "errors") else []
        found += [(prefix + key, text) for key, text in pairs if not is_wrong(prefix + key)]
    return found


def check_config(config: Any) -> None:
    """Raise one error with all that is wrong in a configuration.

    Args:
        config: as in :func:`config_errors`.

    Raises:
        ConfigError: with one line for each problem, which begins with the dotted key.

    >>> from rlkit_sac.config import LossConfig
    >>> check_config(LossConfig(gamma=1.5))
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: gamma: must be less than or equal to 1, got 1.5
    """
    refuse([f"{key}: {text}" for key, text in config_errors(config)])
