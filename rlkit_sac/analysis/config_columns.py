"""The values of ``config.yaml`` as columns of a table."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rlkit_sac.errors import ConfigError, RunError, summary


def read_config(file: Path) -> dict[str, Any]:
    r"""Read a configuration and give each value under its dotted name as well.

    Args:
        file: the `config.yaml` of a run.

    Returns:
        The sections and top-level values by name, and the values of sections by dotted name.

    Raises:
        RunError: the file cannot be read, or is not a mapping in YAML.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "config.yaml"
        >>> _ = file.write_text("seed: 3\nupdate: {lr_actor: 0.001, periods: {target: 2}}")
        >>> list(read_config(file))
        ['seed', 'update', 'update.lr_actor', 'update.periods']
    """
    try:
        config = yaml.load(file.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise RunError(f"{file} cannot be read as YAML: {summary(error)}") from error
    if not isinstance(config, dict):
        raise RunError(f"{file} cannot be read as a configuration: it holds no 'key: value' lines")
    values = {}
    for name, value in config.items():
        values[str(name)] = value
        if isinstance(value, dict):
            values |= {f"{name}.{key}": entry for key, entry in value.items()}
    return values


class _Loader(yaml.SafeLoader):
    """Reads tuples, and what stands for other objects of Python as text."""


_Loader.add_multi_constructor(
    "",
    lambda self, _, node: (
        tuple(self.construct_sequence(node, deep=True))
        if isinstance(node, yaml.SequenceNode)
        else node.value
    ),
)


def config_cells(
    configs: Sequence[Mapping[str, Any]], names: Iterable[str] | None = None
) -> dict[str, list[Any]]:
    """The values of the configurations of several runs.

    Args:
        configs: one result of :func:`read_config` for each run.
        names: the dotted names. Default: those of all values, sections aside.

    Returns:
        For each name one cell per run: lists and mappings as JSON text, None where a run has no
        such value.

    Raises:
        ConfigError: no run has a value of a name.

    Example:
        >>> configs = [{"network.num_cells": [64, 64]}, {"network.num_cells": [256, 256]}]
        >>> config_cells(configs, ["network.num_cells"])
        {'network.num_cells': ['[64, 64]', '[256, 256]']}
    """
    known = dict.fromkeys(name for config in configs for name in config)
    if names is None:
        sections = {name.partition(".")[0] for name in known if "." in name}
        names = [name for name in known if name not in sections]
    cells = {}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
            raise ConfigError(f"no config.yaml has a value {name!r}{hint}")
        cells[name] = [_cell(config.get(name)) for config in configs]
    return cells


def differing_names(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of the values, sections aside, that are not the same in all configurations.

    Args:
        configs: one result of :func:`read_config` for each run.

    Returns:
        The names, in the order of the files. A value that some runs lack differs from the others.

    Example:
        >>> differing_names([{"seed": 0, "device": "cpu"}, {"seed": 1, "device": "cpu"}])
        ['seed']
    """
    cells = config_cells(configs)
    return [name for name, values in cells.items() if any(v != values[0] for v in values)]


def _cell(value: Any) -> str | float | None:
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    return json.dumps(value, sort_keys=True, default=str)
