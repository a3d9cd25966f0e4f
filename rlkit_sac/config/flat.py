"""A configuration as one level of dotted keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar, get_origin, get_type_hints

from rlkit_sac.config.values import plain_value


@dataclasses.dataclass(frozen=True)
class Option:
    """One option of a configuration: a field of one of its sections."""

    section: Any
    name: str
    hint: Any
    """Type of the field."""

    @property
    def value(self) -> Any:
        """What the option is set to."""
        return getattr(self.section, self.name)


def sections_of(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The sections of a configuration, inner ones first, each after the prefix of its keys.

    Args:
        config: a (nested) configuration dataclass.
        prefix: put before each prefix.

    >>> from rlkit_sac.runs import RunConfig
    >>> [prefix for prefix, _ in sections_of(RunConfig())]
    ['env.', 'collector.', 'workers.', ..., '']
    """
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            yield from sections_of(value, f"{prefix}{field.name}.")
    yield prefix, config


def options_of(config: Any) -> dict[str, Option]:
    """The options of a configuration by dotted key.

    Args:
        config: a (nested) configuration dataclass.

    >>> from rlkit_sac.config import CheckpointConfig
    >>> {key: option.value for key, option in options_of(CheckpointConfig()).items()}
    {'interval': 5000, 'keep': 2}
    """
    return {
        f"{prefix}{name}": Option(section, name, hint)
        for prefix, section in sections_of(config)
        for name, hint in get_type_hints(type(section), include_extras=True).items()
        if get_origin(hint) is not ClassVar and name in vars(section)
        if not dataclasses.is_dataclass(getattr(section, name))
    }


def flat_config(config: Any) -> dict[str, Any]:
    """The options of a run by dotted key, without ``resume``, which does not describe the run.

    All are JSON values: keys of mappings become strings.

    Args:
        config: a (nested) configuration dataclass.

    >>> from rlkit_sac.config import CheckpointConfig
    >>> flat_config(CheckpointConfig())
    {'interval': 5000, 'keep': 2}
    """
    options = options_of(config)
    options.pop("resume", None)
    return {key: plain_value(option.value) for key, option in options.items()}
