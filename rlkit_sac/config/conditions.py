"""Conditions of a configuration, declared in its dataclasses, checked all at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any

from rlkit_sac.config.flat import options_of, sections_of
from rlkit_sac.config.values import value_error
from rlkit_sac.errors import ConfigError, one_line, refuse, summary


@dataclasses.dataclass(frozen=True)
class Check:
    """A condition that takes more than the options themselves: a device, a task, a folder.

    Args:
        reads: the fields and sections it depends on, as dotted keys; errors name the first. It
            does not run where one of them is wrong already.
        run: raises `ConfigError`, with one line for each thing that is wrong, or `OSError`.

    >>> Check(("device",), lambda: None).reads
    ('device',)
    """

    reads: tuple[str, ...]
    run: Callable[[], object]


def config_errors(
    config: Any, wrong: Collection[str] = (), *, checks: Sequence[Check] | None = None
) -> list[tuple[str, str]]:
    """List all that is wrong in a configuration, as pairs of dotted key and message.

    Every field must be of its type and within its limits, and every number finite. A section may
    add a method ``errors()`` for conditions between its fields, which returns such pairs, and the
    configuration a method ``checks()`` for those that need the machine or the task, which returns
    `Check` s.

    Args:
        config: an instance of a (nested) configuration dataclass.
        wrong: keys whose values could not be read and are those of the defaults; conditions that
            depend on them are skipped.
        checks: run in place of ``config.checks()`` where there is no other error.

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
    if found or wrong or checks is None:
        checks = config.checks() if hasattr(config, "checks") else []
    for check in checks:
        if any(map(is_wrong, check.reads)):
            continue
        try:
            check.run()
        except ConfigError as error:
            found += [(check.reads[0], one_line(line)) for line in str(error).split("\n")]
        except OSError as error:
            found.append((check.reads[0], summary(error)))
    return found


def check_config(config: Any, *, checks: Sequence[Check] | None = None) -> None:
    """Raise one error with all that is wrong in a configuration.

    Args:
        config: as in :func:`config_errors`.
        checks: as in :func:`config_errors`.

    Raises:
        ConfigError: with one line for each problem, which begins with the dotted key.

    >>> from rlkit_sac.config import LossConfig
    >>> check_config(LossConfig(gamma=1.5))
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: gamma: must be less than or equal to 1, got 1.5
    """
    problems = [f"{key}: {text}" for key, text in config_errors(config, checks=checks)]
    refuse(problems)
