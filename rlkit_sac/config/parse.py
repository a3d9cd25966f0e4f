"""From a configuration dataclass, YAML files and the command line to one checked configuration."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, get_args, get_origin

from rlkit_sac.config.bounds import without_limits
from rlkit_sac.config.command_line import Setting, read_command_line
from rlkit_sac.config.conditions import config_errors
from rlkit_sac.config.flat import Option, options_of
from rlkit_sac.config.help import format_help
from rlkit_sac.config.names import unknown_option
from rlkit_sac.config.shipped import find_config
from rlkit_sac.config.values import read_value
from rlkit_sac.config.yaml_file import read_yaml
from rlkit_sac.errors import ConfigError, one_line

Config = TypeVar("Config")
StoredOptions = Callable[[str], Mapping[str, Any]]


def parse_config(
    config_class: type[Config],
    argv: Sequence[str] | None = None,
    *,
    stored_options: StoredOptions | None = None,
) -> Config:
    """Build a configuration from its defaults, then ``--config`` files, then dotted options.

    Options are written ``--update.lr_actor 1e-3`` or ``--update.lr_actor=1e-3``; an entry of a
    dictionary ``--env.kwargs.name value``. ``--help`` prints every option and exits.

    Args:
        config_class: a dataclass whose fields all have defaults; nested dataclasses are sections.
        argv: the arguments after the program's name; default ``sys.argv[1:]``.
        stored_options: the options by dotted key of the run that ``--resume`` names; the files and
            the command line override them.

    Raises:
        ConfigError: with one line for each unknown key, wrong type, value out of range or
            unreadable file; all of them at once.

    >>> from rlkit_sac.config import UpdateConfig
    >>> parse_config(UpdateConfig, ["--lr_actor", "1e-3", "--periods.target", "2"]).periods
    {'target': 2}
    >>> parse_config(UpdateConfig, ["--lr_alpa", "1", "--utd_ratio", "0"])
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: unknown option --lr_alpa; did you mean --lr_alpha?
    --utd_ratio: must be > 0, got 0
    """
    config = config_class()
    argv = sys.argv[1:] if argv is None else argv
    _, problems = set_options([config], argv, stored_options=stored_options)
    if problems:
        raise ConfigError("\n".join(problems))
    return config


def set_options(
    configs: Sequence[Any], argv: Sequence[str], *, stored_options: StoredOptions | None = None
) -> tuple[dict[str, str], list[str]]:
    """Set the options of configurations, and check them by themselves.

    If some are wrong, machine and task are checked too, so that all errors come at once; else that
    is left to :func:`~rlkit_sac.config.conditions.check_config`.

    Args:
        configs: configuration dataclasses with their defaults; no two of them share a key. The last
            one is that of the recipe, whose examples ``--help`` shows.
        argv: as in `parse_config`.
        stored_options: as in `parse_config`.

    Returns:
        Where each key was set that has no default any more, and a line for each problem.

    >>> from rlkit_sac.config import CheckpointConfig
    >>> config = CheckpointConfig()
    >>> set_options([config], ["--keep", "3"])
    ({'keep': '--keep'}, [])
    >>> config.keep
    3
    """
    options = {key: option for each in configs for key, option in options_of(each).items()}
    given, problems = read_command_line(argv)
    if any(setting.key == "help" for setting in given):
        print(format_help(type(configs[-1]), options), end="")
        raise SystemExit(0)
    settings: list[Setting] = []
    wrong: set[str] = set()  # keys that could not be read, which have their defaults
    for setting in given:
        if setting.value is None:
            known = setting.key == "config" or _key_of(setting.key, options)
            advice = f"{setting.where}: needs a value; write {setting.where} VALUE"
            problems.append(advice if known else unknown_option(setting, options))
            wrong.add(setting.key)
    given = [setting for setting in given if setting.value is not None]
    for setting in given:
        # A resumed run starts from its stored options, which files and command line may change.
        if setting.key == "resume" and stored_options is not None:
            try:
                settings += _stored(stored_options(setting.value), setting.value, options)
            except (ConfigError, OSError) as error:
                problems.append(f"{setting.where}: {error}")
                wrong.add("resume")
    sections = {key[:at] for key in options for at, sign in enumerate(key) if sign == "."}
    for setting in given:
        if setting.key == "config":
            try:
                file = find_config(setting.value, type(configs[-1]))
            except (ConfigError, OSError) as error:
                problems.append(f"{setting.where}: {error}")
                continue
            found, unreadable = read_yaml(file, sections)
            settings += found
            problems += unreadable
    settings += [setting for setting in given if setting.key != "config"]
    where: dict[str, str] = {}
    for setting in settings:
        key = _key_of(setting.key, options)
        if key is None:
            problems.append(unknown_option(setting, options))
            wrong.add(setting.key)
            continue
        if key == "resume" and stored_options and setting.value and not setting.on_command_line:
            advice = "the run to resume is given on the command line, with --resume"
            problems.append(f"{setting.where}: {advice}")
            wrong.add(key)
            continue
        try:
            _set(options[key], setting, entry=setting.key[len(key) + 1 :])
        except TypeError as error:
            problems.append(f"{setting.where}: {error}")
            wrong.add(key)
        else:
            where[key] = setting.where
    errors = [config_errors(each, wrong, checks=None if problems else []) for each in configs]
    if any(errors) and not problems:  # then the checks of all configurations
        errors = [found or config_errors(each) for each, found in zip(configs, errors, strict=True)]
    pairs = [pair for each in errors for pair in each if pair[0] not in wrong]
    problems += [f"{where.get(key, key)}: {text}" for key, text in pairs]
    return where, [one_line(problem) for problem in problems]


def _stored(stored: Mapping[str, Any], run: str, options: Mapping[str, Option]) -> list[Setting]:
    foreign = [key for key in stored if key not in options]
    if foreign:
        raise ConfigError(
            f"{run} has options that this recipe lacks ({', '.join(foreign[:3])}): resume it with "
            "the recipe and the version that began it, which its run.json names"
        )
    return [Setting(key, value, where=key) for key, value in stored.items()]


def _key_of(key: str, options: Mapping[str, Option]) -> str | None:
    """The option that a key means: itself, or the mapping that it names an entry of."""
    if key in options:
        return key
    for each, option in options.items():
        if key.startswith(f"{each}.") and get_origin(without_limits(option.hint)) is dict:
            return each
    return None


def _set(option: Option, setting: Setting, *, entry: str) -> None:
    """Set an option, or one entry of a mapping."""
    hint, is_text = option.hint, setting.on_command_line
    if entry:
        name_hint, hint = get_args(without_limits(hint))
        name = read_value(entry, name_hint, is_text=True)
        value = {**option.value, name: read_value(setting.value, hint, is_text=is_text)}
    else:
        value = read_value(setting.value, hint, is_text=is_text)
    setattr(option.section, option.name, value)
