"""Reading of options: YAML files, the command line and values of Python, into a configuration."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast, get_args, get_origin

import yaml

from rlkit_sac.config.help import format_help, unknown_option
from rlkit_sac.config.options import (
    ObjectDescription,
    Option,
    config_errors,
    options_of,
    plain_value,
    read_values,
    sections_of,
)
from rlkit_sac.config.shipped import default_config, find_config
from rlkit_sac.errors import ConfigError, prefix_errors, refuse, repeated_options

Config = TypeVar("Config")
StoredOptions = Callable[[Any], Mapping[str, Any]]


class Setting(NamedTuple):
    """A value that was given for an option.

    Attributes:
        key: the dotted key of the option, or of an entry of an option that is a mapping.
        value: the value as it was given.
        where: the place of the value, for errors: ``--seed``, or ``pendulum.yaml: seed``.
        is_text: whether the value is a string of the command line, which has yet to be read.
    """

    key: str
    value: Any
    where: str
    is_text: bool = False


class _Loader(yaml.SafeLoader):
    """A loader of YAML 1.2, in which no, 9:30 and 1_000 are strings and 010 is ten.

    It refuses a key that appears twice.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        scalars = (key for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        names = Counter((key.value, key.tag) for key in scalars)
        if repeated := [name for (name, _), count in names.items() if count > 1]:
            text = f"key {repeated[0]!r} appears twice"
            raise yaml.constructor.ConstructorError(problem=text, problem_mark=node.start_mark)
        return super().construct_mapping(node, deep=deep)


class _Dumper(yaml.SafeDumper):
    """A dumper whose output both :class:`_Loader` and loaders of YAML 1.1 read back equal.

    It writes a description of objects other than numbers, strings, lists, tuples, sets and
    mappings.
    """

    def ignore_aliases(self, data: Any) -> bool:
        return True


_TAG = "tag:yaml.org,2002:"
_TUPLE, _OBJECT = f"{_TAG}python/tuple", "!python"
_Loader.yaml_implicit_resolvers = {}  # PyYAML's own are those of YAML 1.1
for _name, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(f"{_TAG}{_name}", re.compile(f"^({_pattern})$"), list(_first))
_Loader.add_constructor(f"{_TAG}int", lambda _, node: int(node.value))
_Loader.add_constructor(
    _TUPLE, lambda self, node: tuple(self.construct_sequence(cast(yaml.SequenceNode, node), True))
)
_Loader.add_constructor(_OBJECT, lambda _, node: ObjectDescription(node.value))
_Dumper.add_representer(tuple, lambda self, value: self.represent_sequence(_TUPLE, value))
_Dumper.add_representer(ObjectDescription, lambda self, it: self.represent_scalar(_OBJECT, it.text))


def _represent_object(dumper: _Dumper, value: Any) -> yaml.Node:
    if getattr(value, "shape", None) == ():  # a number of NumPy or PyTorch
        return dumper.represent_data(value.item())
    return dumper.represent_scalar(_OBJECT, repr(value))


_Dumper.add_multi_representer(object, _represent_object)


def to_yaml(values: dict[str, Any]) -> str:
    """Return nested values as YAML that :func:`read_yaml` reads back equal, in the given order.

    >>> print(to_yaml({"seed": 0, "network": {"num_cells": [64, 64]}, "id": "1e3"}), end="")
    seed: 0
    network:
      num_cells: [64, 64]
    id: '1e3'
    """
    return yaml.dump(
        values, Dumper=_Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True
    )


def from_yaml(text: str) -> Any:
    """Return the values in a text that :func:`to_yaml` made."""
    return yaml.load(text, _Loader)


def read_yaml(file: Path, config: Any) -> list[Setting]:
    r"""Return the options that a file sets.

    Args:
        file: the YAML file. A section is a nested mapping, or a prefix of dotted keys.
        config: the configuration that has the sections.

    Raises:
        ConfigError: the file cannot be read.

    >>> import tempfile
    >>> from rlkit_sac.runs import RunConfig
    >>> file = Path(tempfile.mkdtemp()) / "a.yaml"
    >>> _ = file.write_text("seed: 3\nupdate:\n  lr_actor: 1e-3\n")
    >>> [(setting.key, setting.value) for setting in read_yaml(file, RunConfig())]
    [('seed', 3), ('update.lr_actor', 0.001)]
    """
    try:
        with file.open(encoding="utf-8") as opened:
            content = yaml.load(opened, _Loader)
    except (OSError, ValueError, yaml.YAMLError) as error:
        text = " ".join(str(error).split())  # YAML's errors name the line
        raise ConfigError(f"{file} cannot be read: {text}") from error
    if not isinstance(content, Mapping | None):
        raise ConfigError(f"{file}: the file must hold 'key: value' lines, not {content!r}")
    return list(_nested_settings(content or {}, config, where=f"{file}: "))


def _read_files(name: Any, config: Any, reading: tuple[Path, ...] = ()) -> list[Setting]:
    """Return the settings of the file that a ``config`` entry names, those it builds upon first.

    Args:
        name: the entry: a path, or the name of a file that the recipe comes with.
        config: the configuration of the recipe.
        reading: the files that build upon this one; the name is looked up beside the last.
    """
    if not isinstance(name, str | PathLike):
        raise ConfigError(f"wanted the name of a file, got {name!r}")
    beside = reading[-1].parent / name if reading else Path(name)
    file = beside if reading and beside.is_file() else find_config(str(name), type(config))
    if file in reading:
        raise ConfigError(f"{file} builds upon itself")
    base_settings, settings = [], []
    for setting in read_yaml(file, config):
        if setting.key == "config":
            with prefix_errors(setting.where):
                base_settings += _read_files(setting.value, config, (*reading, file))
        elif setting.key != "resume":
            settings.append(setting)
        elif setting.value:
            raise ConfigError(f"{setting.where}: give the run to resume by --resume")
    return base_settings + settings


def _nested_settings(
    values: Mapping[str, Any], config: Any, where: str, prefix: str = ""
) -> Iterator[Setting]:
    """Yield a setting for each value in nested mappings, by the sections of a configuration."""
    sections = dict(sections_of(config))
    for name, value in values.items():
        key = f"{prefix}{name}"
        if f"{key}." in sections and isinstance(value, Mapping | None):
            yield from _nested_settings(value or {}, config, where, f"{key}.")
        else:
            yield Setting(key, value, f"{where}{key}")


def parse_config(
    config_class: type[Config],
    argv: Sequence[str] | None = None,
    *,
    stored_options: StoredOptions | None = None,
) -> Config:
    """Build a configuration from its defaults, then ``--config`` files, then dotted options.

    Options are written ``--update.lr_actor 1e-3`` or ``--update.lr_actor=1e-3``; an entry of a
    dictionary ``--env.kwargs.name value``. ``--help`` prints the common options and exits, and
    ``--help all`` every option.

    Args:
        config_class: a dataclass whose fields all have defaults; nested dataclasses are sections.
        argv: the arguments after the program's name; default ``sys.argv[1:]``.
        stored_options: the same argument of :func:`set_options`.

    Raises:
        ConfigError: keys are unknown, values are of a wrong type or out of range, or files cannot
            be read. The error has a line for each, all at once.

    >>> from rlkit_sac.config import UpdateConfig
    >>> parse_config(UpdateConfig, ["--lr_actor", "1e-3", "--periods.target", "2"]).periods
    {'target': 2}
    >>> parse_config(UpdateConfig, ["--lr_alpa", "1", "--utd_ratio", "0"])
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: --lr_alpa: unknown option; did you mean --lr_alpha?
    --utd_ratio: must be greater than 0, got 0
    """
    config, given = config_class(), sys.argv[1:] if argv is None else argv
    refuse(set_options([config], given, stored_options=stored_options)[1])
    return config


def set_options(
    configs: Sequence[Any],
    given: Sequence[str] | Mapping[str, Any],
    *,
    stored_options: StoredOptions | None = None,
) -> tuple[dict[str, str], list[str]]:
    """Set the options of configurations, and check them.

    Args:
        configs: configuration dataclasses with their defaults, no two with a key in common. The
            last one is the recipe's; ``--help`` shows the examples of its module.
        given: a command line as in `parse_config`, or values by dotted key or nested by section.
            An entry ``config`` may hold such values too; the others override them.
        stored_options: a function that returns the options of the run that ``--resume`` names, by
            dotted key. Files and command line override them.

    Returns:
        The place where each option was set, by dotted key, and a line for each problem.

    >>> from rlkit_sac.config import CheckpointConfig
    >>> set_options([CheckpointConfig()], ["--keep", "3"])
    ({'keep': '--keep'}, [])
    """
    recipe = configs[-1]
    options = {key: option for config in configs for key, option in options_of(config).items()}
    problems: list[str] = []
    if isinstance(given, Mapping):
        direct = _python_settings(given, recipe)
    else:
        direct, problems = _command_line_settings(given)
    settings: list[Setting] = []
    is_plain = not {"config", "resume"} & {setting.key for setting in direct}
    if is_plain and (file := default_config(type(recipe))):
        settings = [setting._replace(where=setting.key) for setting in read_yaml(file, recipe)]
    # A resumed run starts from its stored options, which files and command line may change.
    order = {"resume": 0, "config": 1}
    for key, value, place, _ in sorted(direct, key=lambda setting: order.get(setting.key, 2)):
        try:
            if key == "config":
                settings += _read_files(value, recipe)
                recipe.configuration = Path(value).stem
            elif key == "resume" and stored_options and isinstance(value, str | PathLike):
                stored = stored_options(value).items()
                settings += [Setting(name, item, f"{value}: {name}") for name, item in stored]
        except (ConfigError, OSError) as error:  # noqa: PERF203
            problems.append(f"{place}: {error}")
    settings += [setting for setting in direct if setting.key != "config"]
    values: dict[str, Any] = {}
    where: dict[str, str] = {}
    for setting in settings:
        key = _option_key(setting.key, options)
        where[key] = where[setting.key] = setting.where
        values[key] = _new_value(setting, key, options, values)
    hints = {key: option.hint for key, option in options.items()}
    valid, errors = read_values(hints, values)
    for key, value in valid.items():
        setattr(options[key].section, options[key].name, value)
    if {"-h", "--help"} & set(given):
        print(format_help(type(recipe), options, every="all" in given), end="")
        raise SystemExit(0)
    for key, text in errors.items():
        place = where.get(key) or where[_option_key(key, options)]
        if key in values and key not in options:
            text = unknown_option(key, options, "--" if place.startswith("--") else "")
        problems.append(f"{place}: {text}")
    problems += [
        f"{where.get(key, key)}: {text}"
        for config in configs
        for key, text in config_errors(config, errors)
    ]
    return where, problems


def _command_line_settings(argv: Sequence[str]) -> tuple[list[Setting], list[str]]:
    """Return the settings on a command line, and a line for each mistake in how it is written."""
    settings: list[Setting] = []
    problems, groups = repeated_options(argv), [[""]]
    for word in argv:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            groups.append([name, value] if equals else [name])
        else:
            groups[-1].append(word)
    for name, *values in groups:
        if not name and values:
            problems.append(f"unexpected argument {values[0]!r}; options are written --name value")
        elif len(values) > 1:
            problems.append(f"{name}: takes one value; several are written {','.join(values)}")
        elif values and values[0]:
            settings.append(Setting(name[2:], values[0], name, is_text=True))
        elif name.strip("-"):
            problems.append(f"{name}: needs a value; write {name} VALUE")
    return settings, problems


def _python_settings(given: Mapping[str, Any], config: Any) -> list[Setting]:
    """Return the settings in values of Python, by dotted keys or nested."""
    values = dict(given)
    base = values.pop("config") if isinstance(values.get("config"), Mapping) else {}
    return [*_nested_settings(base, config, "config: "), *_nested_settings(values, config, "")]


def _option_key(key: str, options: Mapping[str, Option]) -> str:
    """Return the key of the option that a key belongs to: itself, or a mapping with this entry."""
    mappings = (name for name, option in options.items() if get_origin(option.hint) is dict)
    owners = [key] if key in options else [x for x in mappings if key.startswith(f"{x}.")]
    return next(iter(owners), key)


def _new_value(
    setting: Setting, key: str, options: Mapping[str, Option], values: Mapping[str, Any]
) -> Any:
    """Return the value of an option after a setting.

    Args:
        setting: the setting, of the whole option or of an entry of it.
        key: the key of the option.
        options: all options by dotted key.
        values: the values of options from earlier settings.
    """
    if key not in options:
        return setting.value
    option, entry = options[key], setting.key[len(key) + 1 :]
    hint = get_args(option.hint)[1] if entry else option.hint
    value = _read_text(setting.value, hint) if setting.is_text else setting.value
    if hint is not Any and Any not in get_args(hint):  # arguments of the task stay as they are
        value = plain_value(value)
    if not entry:
        return value
    mapping = values.get(key, option.value)
    return {**mapping, entry: value} if isinstance(mapping, Mapping) else mapping


def _read_text(text: str, hint: Any) -> Any:
    """Return the value of a string of the command line, which may be YAML.

    Where the type allows both, the string itself is the value, except for null and for the type
    Any, which take the YAML.
    """
    try:
        value = yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError):
        value = text
    if value is None and text.startswith("#"):
        value = text
    values = [value, text] if value is None or hint is Any else [text, value]
    valid = (item for item in values if not read_values({"": hint}, {"": plain_value(item)})[1])
    return next(valid, value)
