"""From a configuration dataclass, YAML files and the command line to one checked configuration."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import docstring_parser
from jsonargparse import ArgumentParser

from rlkit_sac.config.bounds import bounds_of, config_errors
from rlkit_sac.config.flat import RENAMED
from rlkit_sac.config.yaml_file import read_yaml
from rlkit_sac.errors import ConfigError

Config = TypeVar("Config")


@dataclasses.dataclass(frozen=True)
class _Field:
    hint: Any
    default: Any
    help: str


@dataclasses.dataclass(frozen=True)
class _Setting:
    where: str  # "--seed", or "pendulum.yaml:3: seed"
    key: str
    value: Any
    on_command_line: bool


def parse_config(
    config_class: type[Config],
    argv: Sequence[str] | None = None,
    *,
    prog: str | None = None,
    stored_options: Callable[[str], Mapping[str, Any]] | None = None,
) -> Config:
    """Build a configuration from its defaults, then ``--config`` files, then dotted options.

    Options are written ``--update.lr_actor 1e-3`` or ``--update.lr_actor=1e-3``; an entry of a
    dictionary ``--env.kwargs.name value``. ``--help`` prints every option and exits.

    Args:
        config_class: a dataclass whose fields all have defaults; nested dataclasses are sections.
        argv: the arguments after the program's name; default ``sys.argv[1:]``.
        prog: the program's name in the help text; default that of the running script.
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
    --utd_ratio: must be > 0, got 0.0
    """
    default = config_class()
    fields, sections = _fields(default)
    parser = _parser(config_class, fields, prog)
    options, files, problems = _read_command_line(sys.argv[1:] if argv is None else argv, parser)
    settings: list[_Setting] = []
    wrong: set[str] = set()  # keys that could not be read, which have their defaults
    # A resumed run starts from its stored options, which files and command line may change.
    for option in options:
        if option.key == "resume" and stored_options is not None:
            try:
                stored = stored_options(option.value)
            except ConfigError as error:
                problems.append(f"{option.where}: {error}")
                wrong.add("resume")
                continue
            foreign = [key for key in stored if key not in fields]
            if foreign:
                problems.append(
                    f"{option.where}: {option.value} has options that this recipe lacks "
                    f"({', '.join(foreign[:3])}): resume it with the recipe and the version that "
                    "began it, which its run.json names"
                )
                wrong.add("resume")
                continue
            settings += [_Setting(key, key, value, False) for key, value in stored.items()]
    for file in files:
        entries, file_problems = read_yaml(Path(file), sections)
        problems += file_problems
        settings += [
            _Setting(f"{file}:{entry.line}: {entry.key}", entry.key, entry.value, False)
            for entry in entries
        ]
    values: dict[str, Any] = {key: field.default for key, field in fields.items()}
    origin: dict[str, str] = {}
    for setting in settings + options:
        key = _field_of(setting, fields)
        if key is None:
            problems.append(_unknown(setting, fields, sections))
            wrong.add(setting.key)
            continue
        try:
            value = _adapt(parser, key, fields[key].hint, setting)
        except (argparse.ArgumentError, TypeError):
            wanted = _describe(fields[key].hint)
            problems.append(f"{setting.where}: expected {wanted}, got {_shown(setting.value)}")
            wrong.add(key)
            continue
        # --env.kwargs.name adds one entry, --env.kwargs replaces the dictionary.
        values[key] = value if setting.key == key else {**values[key], **value}
        origin[key] = setting.where
    config = _build(default, values)
    problems += [f"{origin.get(key, key)}: {text}" for key, text in config_errors(config, wrong)]
    if problems:
        raise ConfigError("\n".join(problems))
    return config


def _fields(config: Any, prefix: str = "") -> tuple[dict[str, _Field], set[str]]:
    hints = get_type_hints(type(config), include_extras=True)
    docs = {
        item.arg_name: item.description
        for base in reversed(type(config).__mro__)
        if dataclasses.is_dataclass(base)
        for item in docstring_parser.parse_from_object(base).params
        if item.description is not None  # a field with another default keeps its text
    }
    fields: dict[str, _Field] = {}
    sections: set[str] = set()
    for field in dataclasses.fields(config):
        key, value = prefix + field.name, getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            inner, inner_sections = _fields(value, f"{key}.")
            fields |= inner
            sections |= inner_sections | {key}
            continue
        text = (docs.get(field.name) or "").replace("%", "%%")
        limits = " and ".join(str(bound) for bound in bounds_of(hints[field.name]))
        fields[key] = _Field(
            hints[field.name], value, f"{text} Must be {limits}." if limits else text
        )
    return fields, sections


def _parser(config_class: type, fields: dict[str, _Field], prog: str | None) -> ArgumentParser:
    summary = (config_class.__doc__ or "").strip().split("\n")[0]
    parser = ArgumentParser(
        prog=prog,
        usage="%(prog)s [--config FILE] [--OPTION VALUE ...]",
        description=summary,
        exit_on_error=False,
    )
    parser.add_argument(
        "--config", metavar="FILE", help="YAML file of options; the command line overrides it."
    )
    groups: dict[str, Any] = {"": parser}
    for key, field in fields.items():
        section = key.rpartition(".")[0]
        if section not in groups:
            groups[section] = parser.add_argument_group(section)
        action = groups[section].add_argument(
            f"--{key}", type=_plain(field.hint), default=field.default, help=field.help
        )
        # jsonargparse's list-appending spelling is not offered, so the help must not show it.
        action.option_strings = [f"--{key}"]
    return parser


def _read_command_line(
    argv: Sequence[str], parser: ArgumentParser
) -> tuple[list[_Setting], list[str], list[str]]:
    options: list[_Setting] = []
    files: list[str] = []
    problems: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word in ("-h", "--help"):
            parser.print_help()
            raise SystemExit(0)
        name, equals, value = word.partition("=")
        if not name.startswith("--") or name == "--":
            problems.append(f"unexpected argument {word!r}; options are written --name value")
            continue
        if not equals:
            if not rest or rest[0].startswith("--"):
                problems.append(f"{name}: needs a value; write {name} VALUE")
                continue
            value = rest.pop(0)
        if name == "--config":
            files.append(value)
        else:
            options.append(_Setting(name, name[2:], value, True))
    return options, files, problems


def _field_of(setting: _Setting, fields: dict[str, _Field]) -> str | None:
    if setting.key in fields:
        return setting.key
    for key, field in fields.items():
        is_entry = get_origin(_plain(field.hint)) is dict and setting.key.startswith(f"{key}.")
        if is_entry and setting.on_command_line:
            return key
    return None


def _unknown(setting: _Setting, fields: dict[str, _Field], sections: set[str]) -> str:
    if setting.key in sections:
        members = ", ".join(f"--{key}" for key in fields if key.startswith(f"{setting.key}."))
        return f"--{setting.key} is a section; set one of its options: {members}"
    advice = _advice(setting, fields)
    if setting.on_command_line:
        return f"unknown option {setting.where}; {advice}"
    return f"{setting.where}: unknown key; {advice}"


def _advice(setting: _Setting, fields: dict[str, _Field]) -> str:
    if RENAMED.get(setting.key) in fields:
        return f"{setting.key} is now {RENAMED[setting.key]}"
    leaves: dict[str, list[str]] = {}
    for key in fields:
        leaves.setdefault(key.rpartition(".")[2], []).append(key)
    leaf = setting.key.rpartition(".")[2].replace("-", "_")
    near = difflib.get_close_matches(setting.key, fields, n=1, cutoff=0.75) or leaves.get(leaf, [])
    for match in difflib.get_close_matches(leaf, leaves, n=1):
        near = near or leaves[match]
    dashes = "--" if setting.on_command_line else ""
    names = " or ".join(dashes + key for key in near)
    return f"did you mean {names}?" if near else "see --help for all options"


def _adapt(parser: ArgumentParser, key: str, hint: Any, setting: _Setting) -> Any:
    value = _whole(hint, setting)
    if setting.on_command_line:
        found = parser.parse_args([f"--{setting.key}={value}"], defaults=False)
    elif value is None and type(None) not in get_args(_plain(hint)):
        raise TypeError("jsonargparse lets null pass for every type")
    elif _plain(hint) == dict[str, Any]:
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            raise TypeError("jsonargparse would read text in it as numbers")
        return value
    else:
        found = parser.parse_object({setting.key: value}, defaults=False)
    return found[key]


def _whole(hint: Any, setting: _Setting) -> Any:
    """Read 1e6 as the integer it is, where an integer is wanted."""
    hint, value = _plain(hint), setting.value
    types = get_args(hint) or (hint,)
    if int not in types or float in types:
        return value
    if setting.on_command_line and not value.lstrip("+-").isdecimal():
        with contextlib.suppress(ValueError):
            value = float(value)
    is_whole = isinstance(value, float) and value.is_integer()
    return int(value) if is_whole else setting.value


def _build(default: Any, values: dict[str, Any], prefix: str = "") -> Any:
    changes = {}
    for field in dataclasses.fields(default):
        key, value = prefix + field.name, getattr(default, field.name)
        nested = dataclasses.is_dataclass(value)
        changes[field.name] = _build(value, values, f"{key}.") if nested else values[key]
    return dataclasses.replace(default, **changes)


def _plain(hint: Any) -> Any:
    """Remove ``Annotated`` at every depth of a type."""
    if get_origin(hint) is Annotated:
        return _plain(get_args(hint)[0])
    arguments = tuple(_plain(argument) for argument in get_args(hint))
    if not arguments or get_origin(hint) is Literal:
        return hint
    if get_origin(hint) in (Union, types.UnionType):
        return Union[arguments]  # noqa: UP007 (built at run time)
    return get_origin(hint)[arguments]


def _shown(value: Any) -> str:
    names = {None: "null", True: "true", False: "false"}
    return names[value] if value is None or isinstance(value, bool) else repr(value)


def _describe(hint: Any) -> str:
    hint = _plain(hint)
    names = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}
    if hint in names:
        return names[hint]
    if hint is type(None):
        return "null"
    arguments = get_args(hint)
    if get_origin(hint) is Literal:
        choices = ", ".join(map(str, arguments))
        return f"one of {choices}" if len(arguments) > 1 else choices
    if get_origin(hint) is list:
        return f"a list, each item {_describe(arguments[0])}"
    if get_origin(hint) is dict:
        name = "integer" if arguments[0] is int else "name"
        return f"a mapping {{{name}: value}}" + (
            "" if arguments[1] is Any else f", each value {_describe(arguments[1])}"
        )
    return " or ".join(_describe(argument) for argument in arguments)
