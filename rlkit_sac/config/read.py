"""From YAML files and the command line to one checked configuration."""

from __future__ import annotations

import difflib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, TypeVar, Union, cast, get_args, get_origin

import numpy as np
import yaml

from rlkit_sac.config.help import format_help
from rlkit_sac.config.options import (
    Option,
    PythonObject,
    config_errors,
    options_of,
    plain_value,
    read_value,
    sections_of,
    without_limits,
)
from rlkit_sac.config.shipped import default_config, find_config
from rlkit_sac.errors import ConfigError, named, refuse, repeated_options

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
_scalar: Any = np.generic
_Dumper.add_multi_representer(_scalar, lambda self, value: self.represent_data(value.item()))
_Dumper.add_multi_representer(object, lambda self, it: self.represent_scalar(_OBJECT, repr(it)))


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
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:  # which names the file and the line
        raise ConfigError(" ".join(str(error).split())) from error
    except ValueError as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error
    return list(_walk(content, config, where=f"{file}: "))


def _read_files(name: Any, config: Any, reading: tuple[Path, ...] = ()) -> list[Setting]:
    """The settings of a file, after those of the one that its own ``config`` names, beside it."""
    if not isinstance(name, str):
        raise ConfigError(f"wanted the name of a file, got {name!r}")
    beside = reading[-1].parent / name if reading else Path(name)
    file = beside if reading and beside.is_file() else find_config(name, type(config))
    if file in reading:
        raise ConfigError(f"{file} builds upon itself")
    first, own = [], []
    for setting in read_yaml(file, config):
        if setting.key == "config":
            with named(setting.where):
                first += _read_files(setting.value, config, (*reading, file))
        else:
            own.append(setting)
    return first + own


def _walk(values: Any, config: Any, where: str, prefix: str = "") -> Iterator[Setting]:
    """The settings in nested values, as those of a file, by the sections of a configuration."""
    if not isinstance(values, Mapping | None):
        what = f"section {prefix[:-1]!r}" if prefix else "the file"
        raise ConfigError(f"{where}{what} must hold 'key: value' lines, not {values!r}")
    for name, value in (values or {}).items():
        key = f"{prefix}{name}"
        if any(section == f"{key}." for section, _ in sections_of(config)):
            yield from _walk(value, config, where, f"{key}.")
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
    >>> config = CheckpointConfig()
    >>> set_options([config], ["--keep", "3"])
    ({'keep': '--keep'}, [])
    >>> config.keep
    3
    """
    recipe = configs[-1]
    options = {key: option for each in configs for key, option in options_of(each).items()}
    if isinstance(given, Mapping):
        direct, problems = _of_python(given, recipe, options)
    else:
        direct, problems = _command_line(given)
    file = default_config(type(recipe))
    if file is not None and not {"config", "resume"}.intersection(each.key for each in direct):
        for setting in read_yaml(file, recipe):
            _set(options[setting.key], setting, entry="")
    if {"-h", "--help"} & set(given):
        print(format_help(type(recipe), options, every="all" in given), end="")
        raise SystemExit(0)
    settings: list[Setting] = []
    wrong: set[str] = set()  # keys that could not be read, which have their defaults

    def add(setting: Setting, read: Callable[[str], list[Setting]]) -> None:
        try:
            settings.extend(read(setting.value))
        except (ConfigError, OSError) as error:
            problems.append(f"{setting.where}: {error}")
            wrong.add(setting.key)

    # A resumed run starts from its stored options, which files and command line may change.
    for setting in direct:
        if setting.key == "resume" and stored_options is not None:
            add(setting, lambda run: _stored(stored_options(run), run, options))
    for setting in direct:
        if setting.key == "config":
            add(setting, lambda name: _read_files(name, recipe))
            vars(recipe).update(configuration=Path(str(setting.value)).stem)
    settings += [setting for setting in direct if setting.key != "config"]
    where: dict[str, str] = {}
    for setting in settings:
        key = _key_of(setting.key, options)
        try:
            if key is None:
                raise ValueError(
                    unknown_option(setting.key, options, "--" if setting.is_text else "")
                )
            if key == "resume" and setting.value and setting not in direct:
                raise ValueError("the run to resume is given on the command line, with --resume")
            _set(options[key], setting, entry=setting.key[len(key) + 1 :])
            where[key] = setting.where
        except (TypeError, ValueError) as error:
            problems.append(f"{setting.where}: {error}")
            wrong.add(key or setting.key)
    problems += [
        f"{where.get(key, key)}: {text}"
        for each in configs
        for key, text in config_errors(each, wrong)
        if key not in wrong
    ]
    return where, problems


def _command_line(argv: Sequence[str]) -> tuple[list[Setting], list[str]]:
    """The options of a command line, and a line for each word that is none."""
    settings: list[Setting] = []
    problems, rest = repeated_options(argv), [word for word in argv if word != "--"]
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if not equals and rest and not rest[0].startswith("--"):
            value = rest.pop(0) if name.startswith("--") else ""
        if not name.startswith("--"):
            advice = "options are written --name value"
            if settings:
                last, words = settings[-1], [name]
                while rest and not rest[0].startswith("--"):
                    words.append(rest.pop(0))
                values = ",".join([str(last.value), *words])
                advice = f"several values are written {last.where} {values}"
            problems.append(f"unexpected argument {name!r}; {advice}")
        elif not value:
            problems.append(f"{name}: needs a value; write {name} VALUE")
        else:
            settings.append(Setting(name[2:], value, name, is_text=True))
    return settings, problems


def _of_python(
    given: Mapping[str, Any], config: Any, options: Mapping[str, Option]
) -> tuple[list[Setting], list[str]]:
    """The options among values of Python, by dotted keys or nested, and a line for each problem."""
    settings, problems, direct = [], [], dict(given)
    first = direct.pop("config") if isinstance(direct.get("config"), Mapping) else {}
    for setting in (*_walk(first, config, "config: "), *_walk(direct, config, "")):
        if _is_free(_key_of(setting.key, options), options):  # the task's own, as it is
            settings.append(setting)
            continue
        try:
            settings.append(setting._replace(value=plain_value(setting.value)))
        except TypeError as error:
            problems.append(f"{setting.where}: {error}")
    return settings, problems


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
    mappings = (
        each
        for each, option in options.items()
        if key.startswith(f"{each}.") and get_origin(without_limits(option.hint)) is dict
    )
    return key if key in options else next(mappings, None)


def _is_free(key: str | None, options: Mapping[str, Option]) -> bool:
    """Whether an option is a mapping to values of any type."""
    return key is not None and get_args(without_limits(options[key].hint)) == (str, Any)


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
    inside = [each for each in options if each.startswith(f"{key}.")]
    if inside:
        return f"is a section; its options are {', '.join(dashes + each for each in inside)}"
    name = key.replace("-", "_").rpartition(".")[2]
    name = _ELSEWHERE.get(name, name)
    names = {each.rpartition(".")[2] for each in options}
    near = [each for each in options if each.rpartition(".")[2] == name]
    near = near or difflib.get_close_matches(key, options, n=1, cutoff=0.75)
    if not near:
        close = difflib.get_close_matches(name, names, n=1)
        close = close or [each for each in names if each.startswith(name) or each.endswith(name)]
        near = [each for each in options if each.rpartition(".")[2] in close]
    advice = f"did you mean {' or '.join(dashes + each for each in near[:3])}?"
    return f"unknown option; {advice if near else 'see --help all'}"


def _set(option: Option, setting: Setting, *, entry: str) -> None:
    """Set an option, or one entry of a mapping."""
    hint = option.hint
    if not entry:
        setattr(option.section, option.name, _read(setting, hint))
        return
    name_hint, hint = get_args(without_limits(hint))
    name = int(entry) if name_hint is int else entry
    setattr(option.section, option.name, {**option.value, name: _read(setting, hint)})


def _read(setting: Setting, hint: Any) -> Any:
    if not setting.is_text:
        return read_value(setting.value, hint)
    text, plain = setting.value, without_limits(hint)
    types = get_args(plain) if get_origin(plain) in (Union, UnionType) else (plain,)
    if str in types:
        return None if text == "null" and type(None) in types else text
    try:
        value = yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError):
        value = text
    if value is None and text not in ("null", "~"):  # as in a comment
        value = text
    try:
        return read_value(value, hint)
    except (TypeError, ValueError) as error:
        advice = f"; write '[{text.strip('()')}]'" if "," in text and "[" not in text else ""
        raise type(error)(f"{error}{advice}") from None
