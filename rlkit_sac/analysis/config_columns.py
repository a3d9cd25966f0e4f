"""Options of runs, from ``config.yaml``, as columns of a table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rlkit_sac.errors import ConfigError, as_run_error, suggestion


def read_config_file(run_dir: Path) -> dict[str, Any]:
    r"""Return the configuration of a run, with the values of sections under dotted names too.

    Args:
        run_dir: the directory of the run.

    Returns:
        The sections and top-level values by name, and the values of sections by dotted name.

    Raises:
        RunError: `config.yaml` cannot be read, or is not a mapping in YAML.

    Example:
        >>> import tempfile
        >>> run_dir = Path(tempfile.mkdtemp())
        >>> text = "seed: 3\nupdate: {lr_actor: 0.001, periods: {target: 2}}"
        >>> _ = (run_dir / "config.yaml").write_text(text)
        >>> list(read_config_file(run_dir))
        ['seed', 'update', 'update.lr_actor', 'update.periods']
    """
    file = run_dir / "config.yaml"
    text = f"{file} cannot be read as YAML 'key: value'"
    with as_run_error(text, yaml.YAMLError, ValueError, AttributeError):
        # Tags of tuples and objects are left out, since their values are enough for a table.
        config = yaml.safe_load(re.sub("!!?python(/tuple)?", "", file.read_text(encoding="utf-8")))
        sections = {name: value for name, value in config.items() if isinstance(value, dict)}
    dotted = {f"{name}.{key}": x for name, values in sections.items() for key, x in values.items()}
    return config | dotted


def option_columns(
    configs: Sequence[Mapping[str, Any]], names: Iterable[str] | None = None
) -> dict[str, list[Any]]:
    """Return the values of options as columns, with a cell for each run.

    Args:
        configs: the result of :func:`read_config_file` for each run.
        names: the dotted names. Default: the names of all values other than sections.

    Returns:
        The cells by name. Lists and mappings are JSON text; a cell is None where a run has no such
        value.

    Raises:
        ConfigError: no run has a value of that name.

    Example:
        >>> configs = [{"network.num_cells": [64, 64]}, {"network.num_cells": [256, 256]}]
        >>> option_columns(configs, ["network.num_cells"])
        {'network.num_cells': ['[64, 64]', '[256, 256]']}
    """
    known = dict.fromkeys(name for config in configs for name in config)
    if names is None:
        sections = {name.partition(".")[0] for name in known if "." in name}
        names = [name for name in known if name not in sections]
    cells = {}
    for name in names:
        if name not in known:
            raise ConfigError(f"no config.yaml has a value {name!r}; {suggestion(name, known)}")
        cells[name] = [_table_cell(config.get(name)) for config in configs]
    return cells


def differing_options(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the values that differ between configurations.

    Args:
        configs: the result of :func:`read_config_file` for each run.

    Returns:
        The names, in the order of the files. A value that some runs lack differs from the others.

    Example:
        >>> differing_options([{"seed": 0, "device": "cpu"}, {"seed": 1, "device": "cpu"}])
        ['seed']
    """
    cells = option_columns(configs)
    return [name for name, values in cells.items() if any(v != values[0] for v in values)]


def _table_cell(value: Any) -> str | float | None:
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    return json.dumps(value, sort_keys=True, default=str)
