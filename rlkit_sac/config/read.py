"""From YAML files and the command line to one checked configuration."""

from __future__ import annotations

import difflib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast, get_args, get_origin

import yaml

from rlkit_sac.config.help import format_help
from rlkit_sac.config.options import (
    Option,
    PythonObject,
    config_errors,
    options_of,
    plain_value,
    read_values,
    sections_of,
)
from rlkit_sac.config.shipped import default_config, find_config
from rlkit_sac.errors import ConfigError, prefix_errors, refuse, repeated_options

Config = TypeVar("Config")
StoredOptions = Callable[[str], Mapping[str, Any]]


class Setting(NamedTuple):
    """A value given for an option.

    Attributes:
        key: dotted.
        value: what was given.
        where: how errors name its place: ``--seed``, or ``pendulum.yaml: seed``.
        is_text: whether it is a text of the command line.
    """

    key: str
    value: Any
    where: str
    is_text: bool = False


class _Loader(yaml.SafeLoader):
    """Reads YAML 1.2's core schema, where no, 9:30 and 1_000 are texts and 010 is ten.

    A key that appears twice is refused.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        scalars = (key for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        names = Counter((key.value, key.tag) for key in scalars)
        if twice := [name for (name, _), count in names.items() if count > 1]:
            text = f"key {twice[0]!r} appears twice"
            raise yaml.constructor.ConstructorError(problem=text, problem_mark=node.start_mark)
        return super().construct_mapping(node, deep=deep)


class _Dumper(yaml.SafeDumper):
    """Writes what :class:`_Loader`, and YAML 1.1 too, reads back equal.

    Of objects other than numbers, texts, lists, tuples, sets and mappings it writes a description.
    """

    def ignore_aliases(self, data: Any) -> bool:
        return True


_TAG = "tag:yaml.org,2002:"
_TUPLE, _OBJECT = f"{_TAG}python/tuple", "!python"
_Loader.yaml_implicit_resolvers = {}  # not those of YAML 1.1
for _name, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(f"{_TAG}{_name}", re.compile(f"^({_pattern})$"), list(_first))
_Loader.add_constructor(
    f"{_TAG}int", lambda _, node: int(node.value, {"0o": 8, "0x": 16}.get(node.value[:2], 10))
)
_Loader.add_constructor(
    _TUPLE, lambda self, node: tuple(self.construct_sequence(cast(yaml.SequenceNode, node), True))
)
_Loader.add_constructor(_OBJECT, lambda _, node: PythonObject(node.value))
_Dumper.add_representer(tuple, lambda self, value: self.represent_sequence(_TUPLE, value))
_Dumper.add_representer(PythonObject, lambda self, it: self.represent_scalar(_OBJECT, it.text))


def _represent_object(dumper: _Dumper, value: Any) -> yaml.Node:
    if getattr(value, "shape", None) == ():  # a number of NumPy or PyTorch
        return dumper.represent_data(value.item())
    return dumper.represent_scalar(_OBJECT, repr(value))


_Dumper.add_multi_representer(object, _represent_object)


def to_yaml(values: dict[str, Any]) -> str:
    """Write nested values as YAML that :func:`read_yaml` reads back equal, in the given order.

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
    """Read what :func:`to_yaml` wrote."""
    return yaml.load(text, _Loader)


def read_yaml(file: Path, config: Any) -> list[Setting]:
    r"""Read a file of options.

    Args:
        file: in YAML.
        config: whose sections are nested mappings of the file, or prefixes of its keys.

    Raises:
        ConfigError: if the file cannot be read.

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
        text = " ".join(str(error).split())  # which names the line
        raise ConfigError(f"{file} cannot be read: {text}") from error
    if not isinstance(content, Mapping | None):
        raise ConfigError(f"{file}: the file must hold 'key: value' lines, not {content!r}")
    return list(_walk(content or {}, config, where=f"{file}: "))


def _read_files(name: Any, config: Any, reading: tuple[Path, ...] = ()) -> list[Setting]:
    """The settings of a file, after those of the one that its own ``config`` names, beside it."""
    if not isinstance(name, str | PathLike):
        raise ConfigError(f"wanted the name of a file, got {name!r}")
    beside = reading[-1].parent / name if reading else Path(name)
    file = beside if reading and beside.is_file() else find_config(str(name), type(config))
    if file in reading:
        raise ConfigError(f"{file} builds upon itself")
    first, own = [], []
    for setting in read_yaml(file, config):
        if setting.key == "config":
            with prefix_errors(setting.where):
                first += _read_files(setting.value, config, (*reading, file))
        elif setting.key != "resume":
            own.append(setting)
        elif setting.value:
            raise ConfigError(f"{setting.where}: give the run to resume by --resume")
    return first + own


def _walk(
    values: Mapping[str, Any], config: Any, where: str, prefix: str = ""
) -> Iterator[Setting]:
    """The settings in nested values, as those of a file, by the sections of a configuration."""
    sections = dict(sections_of(config))
    for name, value in values.items():
        key = f"{prefix}{name}"
        if f"{key}." in sections and isinstance(value, Mapping | None):
            yield from _walk(value or {}, config, where, f"{key}.")
        else:
            yield Setting(key, value, f"{where}{key}")


def parse_config(config_class: type[Config], argv: Sequence[str] | None = None) -> Config:
    """Build a configuration from its defaults, then ``--config`` files, then dotted options.

    Options are written ``--update.lr_actor 1e-3`` or ``--update.lr_actor=1e-3``; an entry of a
    dictionary ``--env.kwargs.name value``. ``--help`` prints the common options and exits, and
    ``--help all`` every option.

    Args:
        config_class: a dataclass whose fields all have defaults; nested dataclasses are sections.
        argv: the arguments after the program's name; default ``sys.argv[1:]``.

    Raises:
        ConfigError: with one line for each unknown key, wrong type, value out of range or
            unreadable file; all of them at once.

    >>> from rlkit_sac.config import UpdateConfig
    >>> parse_config(UpdateConfig, ["--lr_actor", "1e-3", "--periods.target", "2"]).periods
    {'target': 2}
    >>> parse_config(UpdateConfig, ["--lr_alpa", "1", "--utd_ratio", "0"])
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: --lr_alpa: unknown option; did you mean --lr_alpha?
    --utd_ratio: must be greater than 0, got 0
    """
    config = config_class()
    argv = sys.argv[1:] if argv is None else argv
    _, problems = set_options([config], argv)
    refuse(problems)
    return config


def set_options(
    configs: Sequence[Any],
    given: Sequence[str] | Mapping[str, Any],
    *,
    stored_options: StoredOptions | None = None,
) -> tuple[dict[str, str], list[str]]:
    """Set the options of configurations, and check them.

    Args:
        configs: configuration dataclasses with their defaults; no two of them share a key. The last
            one is that of the recipe, whose examples ``--help`` shows.
        given: a command line as in `parse_config`, or values by dotted key or nested by section,
            whose ``config`` may be such values too, which the others override.
        stored_options: the options by dotted key of the run that ``--resume`` names; the files and
            the command line override them.

    Returns:
        Where each key was set that has no default any more, and a line for each problem.

    >>> from rlkit_sac.config import CheckpointConfig
    >>> set_options([CheckpointConfig()], ["--keep", "3"])
    ({'keep': '--keep'}, [])
    """
    recipe = configs[-1]
    options = {key: option for each in configs for key, option in options_of(each).items()}
    problems: list[str] = []
    if isinstance(given, Mapping):
        direct = _python_settings(given, recipe)
    else:
        direct, problems = _command_line(given)
    file = default_config(type(recipe))
    if file is not None and not {"config", "resume"}.intersection(each.key for each in direct):
        defaults = {each.key: plain_value(each.value) for each in read_yaml(file, recipe)}
        problems += [f"{file}: {key}: {text}" for key, text in _set(options, defaults).items()]
    if {"-h", "--help"} & set(given):
        print(format_help(type(recipe), options, every="all" in given), end="")
        raise SystemExit(0)
    settings: list[Setting] = []
    # A resumed run starts from its stored options, which files and command line may change.
    order = {"resume": 0, "config": 1}
    for setting in sorted(direct, key=lambda each: order.get(each.key, 2)):
        value = setting.value
        is_run = setting.key == "resume" and isinstance(value, str | PathLike)
        try:
            if setting.key == "config":
                settings += _read_files(value, recipe)
                vars(recipe).update(configuration=Path(value).stem)
            elif is_run and stored_options is not None:
                stored = stored_options(value)
                settings += [Setting(key, stored[key], f"{value}: {key}") for key in stored]
        except (ConfigError, OSError) as error:
            problems.append(f"{setting.where}: {error}")
    settings += [setting for setting in direct if setting.key != "config"]
    values: dict[str, Any] = {}
    where: dict[str, str] = {}
    for setting in settings:
        key = _option_key(setting.key, options)
        where[key] = where[setting.key] = setting.where
        values[key] = _new_value(setting, key, options, values)
    errors = _set(options, values)
    for key, text in errors.items():
        place = where.get(key) or where[_option_key(key, options)]
        if key in values and key not in options:
            text = unknown_option(key, options, "--" if place.startswith("--") else "")
        problems.append(f"{place}: {text}")
    problems += [
        f"{where.get(key, key)}: {text}"
        for each in configs
        for key, text in config_errors(each, errors)
    ]
    return where, problems


def _set(options: Mapping[str, Option], values: Mapping[str, Any]) -> dict[str, str]:
    """Set the options whose values are right; returns what is wrong with the others."""
    hints = {key: option.hint for key, option in options.items()}
    right, errors = read_values(hints, values)
    for key, value in right.items():
        setattr(options[key].section, options[key].name, value)
    return errors


def _command_line(argv: Sequence[str]) -> tuple[list[Setting], list[str]]:
    """The options of a command line, and a line for each that is not written as one."""
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
    """The options among values of Python, by dotted keys or nested."""
    direct = dict(given)
    first = direct.pop("config") if isinstance(direct.get("config"), Mapping) else {}
    return [*_walk(first, config, "config: "), *_walk(direct, config, "")]


def _option_key(key: str, options: Mapping[str, Option]) -> str:
    """The option that a key means: itself, or the mapping that it names an entry of."""
    mappings = (
        name
        for name, option in options.items()
        if key.startswith(f"{name}.") and get_origin(option.hint) is dict
    )
    return key if key in options else next(mappings, key)


# What other libraries call some options.
_ELSEWHERE = {
    **{"learning_rate": "lr", "buffer_size": "capacity", "gradient_steps": "utd_ratio"},
    **{"train_freq": "frames_per_batch", "tau": "target_update_tau", "ent_coef": "alpha_init"},
    **{"total_timesteps": "total_frames", "n_envs": "num_envs", "net_arch": "num_cells"},
    **{"hidden_sizes": "num_cells", "verbose": "progress", "env_kwargs": "kwargs"},
}


def unknown_option(key: str, options: Mapping[str, Option], dashes: str = "") -> str:
    """What is said of an option that does not exist: the names that come near.

    Args:
        key: that was given.
        options: all options by dotted key.
        dashes: written before options.

    >>> from rlkit_sac.config import UpdateConfig
    >>> unknown_option("update_tau", options_of(UpdateConfig()), "--")
    'unknown option; did you mean --target_update_tau?'
    """
    if inside := [each for each in options if each.startswith(f"{key}.")]:
        return f"is a section; its options are {', '.join(dashes + each for each in inside)}"
    ends = {each: each.rpartition(".")[2] for each in options}
    name = key.replace("-", "_").rpartition(".")[2]
    name = _ELSEWHERE.get(name, name)
    near = [each for each in options if ends[each] == name]
    near = near or difflib.get_close_matches(key, options, n=1, cutoff=0.75)
    if not near:
        close = difflib.get_close_matches(name, ends.values(), n=1)
        near = [each for each in options if ends[each] in close or name in ends[each].split("_")]
    advice = f"did you mean {' or '.join(dashes + each for each in near[:3])}?"
    return f"unknown option; {advice if near else 'see --help all'}"


def _new_value(
    setting: Setting, key: str, options: Mapping[str, Option], values: Mapping[str, Any]
) -> Any:
    """The value that a setting gives the option ``key``, which earlier ones gave ``values``."""
    if key not in options:
        return setting.value
    option, entry = options[key], setting.key[len(key) + 1 :]
    hint = get_args(option.hint)[1] if entry else option.hint
    value = _read_text(setting.value, hint) if setting.is_text else setting.value
    if hint is not Any and Any not in get_args(hint):  # what the task takes stays as it is
        value = plain_value(value)
    if not entry:
        return value
    mapping = values.get(key, option.value)
    return {**mapping, entry: value} if isinstance(mapping, Mapping) else mapping


def _read_text(text: str, hint: Any) -> Any:
    """The value of a text of the command line: itself where the option takes it, or as YAML."""
    try:
        value = yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError):
        value = text
    if value is None and text.startswith("#"):
        value = text
    values = [value, text] if value is None or hint is Any else [text, value]
    right = (each for each in values if not read_values({"": hint}, {"": plain_value(each)})[1])
    return next(right, value)
