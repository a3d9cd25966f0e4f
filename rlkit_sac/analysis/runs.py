"""From run directories to one pandas table."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import yaml

from rlkit_sac.analysis.files import Paths, as_paths, files_below, read_each, read_rows
from rlkit_sac.analysis.run_json import IDENTITY, read_description
from rlkit_sac.errors import ConfigError, RunError, summary
from rlkit_sac.untrusted import LARGEST_JSON, read_file

# Each table with the columns that every run's file has.
TABLES = {
    "evaluations": ("frames", "return_mean"),
    "episodes": ("frames", "return"),
    "metrics": ("frames",),
}


def load_runs(
    paths: Paths,
    *,
    table: Literal["evaluations", "episodes", "metrics"] = "evaluations",
    config: bool | str | Iterable[str] = False,
) -> pd.DataFrame:
    r"""Read one table of every run found under the given paths.

    A run directory is any directory that holds a `run.json`; the search goes down from each path.
    A run that is still being written, or was killed, is read up to its last complete row. A
    damaged run is left out with a warning that names the file.

    Args:
        paths: a run directory, a directory above runs, or several of either.
        table: which file to read: `"evaluations"` (default), `"episodes"` or `"metrics"`.
        config: the values of `config.yaml` that become columns, by dotted name, such as
            `["update.lr_actor", "network.num_cells"]`. True: all that differ between the runs,
            except the seed, which always is a column. Default: none. Lists and mappings become
            JSON text; a value that is null, or that a run lacks, is missing in the table.

    Returns:
        One row per row of the files. The columns `run` (the run directory), `recipe`, `task`,
        `seed` and `status` come first, those of `config` and the file's own columns follow. A run
        without rows adds none.

    Raises:
        ConfigError: a path does not exist, no run is found, `table` is unknown, or no run has a
            value that `config` names.
        RunError: no run can be read.

    Example:
        >>> import tempfile
        >>> run_dir = Path(tempfile.mkdtemp())
        >>> description = {"recipe": "sac", "task": "Pendulum-v1", "seed": 0, "status": "finished"}
        >>> _ = (run_dir / "run.json").write_text(json.dumps(description))
        >>> _ = (run_dir / "config.yaml").write_text("update: {lr_actor: 0.001}")
        >>> csv = "frames,return_mean\n1000,-900.0\n2000,-150.0\n"
        >>> _ = (run_dir / "evaluations.csv").write_text(csv)
        >>> data = load_runs(run_dir, config=["update.lr_actor"])
        >>> data[["seed", "update.lr_actor", "frames", "return_mean"]]
           seed  update.lr_actor  frames  return_mean
        0     0            0.001    1000       -900.0
        1     0            0.001    2000       -150.0
    """
    if table not in TABLES:
        raise ConfigError(f"table is {table!r}; choose 'evaluations', 'episodes' or 'metrics'")
    roots = as_paths(paths)
    run_dirs = list(dict.fromkeys(run_dir for root in roots for run_dir in _find_runs(root)))
    if not run_dirs:
        where = ", ".join(map(str, roots)) or "an empty list of paths"
        raise ConfigError(
            f"no run found under {where}: a run directory holds a run.json; give the directory a "
            "recipe printed, or one above it"
        )
    names = [config] if isinstance(config, str) else config

    def read(run_dir: Path) -> tuple[dict[str, Any], pd.DataFrame]:
        values = _read_config(run_dir / "config.yaml") if names is not False else {}
        return values, _load_run(run_dir, table)

    loaded = read_each(run_dirs, read)
    runs = {str(run_dir): frame for run_dir, (_, frame) in loaded.items()}
    configs = [values for values, _ in loaded.values()]
    filled = [frame for frame in runs.values() if not frame.empty]
    data = pd.concat(filled or list(runs.values())[:1], ignore_index=True)
    if names is not False:
        names = _differing_names(configs) if names is True else names
        names = [name for name in dict.fromkeys(names) if name not in data.columns]
        for index, (name, cells) in enumerate(_config_cells(configs, names).items()):
            of_run = dict(zip(runs, cells, strict=True))
            data.insert(1 + len(IDENTITY) + index, name, [of_run[run] for run in data["run"]])
    return data


def _find_runs(root: Path) -> Iterator[Path]:
    if not os.path.isdir(root):
        raise ConfigError(f"{root} is not a directory; give a run directory or one above runs")
    return (file.parent for file in files_below(root.resolve()) if file.name == "run.json")


def _load_run(run_dir: Path, table: str) -> pd.DataFrame:
    description = read_description(run_dir / "run.json")
    file = run_dir / f"{table}.csv"
    rows = read_rows(file, TABLES[table])
    if twice := [name for name in ("run", *IDENTITY) if name in rows.columns]:
        raise RunError(f"{file} has a column {twice[0]}, which no table of a run has")
    identity = pd.DataFrame(
        {"run": str(run_dir), **{name: description[name] for name in IDENTITY}}, index=rows.index
    )
    return pd.concat([identity, rows], axis=1)


def _read_config(file: Path) -> dict[str, Any]:
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
        >>> list(_read_config(file))
        ['seed', 'update', 'update.lr_actor', 'update.periods']
    """
    try:
        text = read_file(file, LARGEST_JSON).decode()
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise ValueError("it has aliases, which no run writes")
        config = yaml.safe_load(text)
        str(config)  # ValueError for a number too long to be shown, which may be hexadecimal
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error.strerror}") from error
    except Exception as error:  # any error that wrong content of a file can cause
        raise RunError(f"{file} cannot be read as YAML: {summary(error)}") from error
    if not isinstance(config, dict):
        raise RunError(f"{file} cannot be read as a configuration: it holds no 'key: value' lines")
    values = {}
    for name, value in config.items():
        values[str(name)] = value
        if isinstance(value, dict):
            values |= {f"{name}.{key}": entry for key, entry in value.items()}
    return values


def _config_cells(
    configs: Sequence[Mapping[str, Any]], names: Iterable[str]
) -> dict[str, list[Any]]:
    """Look up names in the configurations of several runs.

    Args:
        configs: one result of :func:`_read_config` for each run.
        names: the dotted names.

    Returns:
        For each name one cell per run: lists and mappings as JSON text, None where a run has no
        such value.

    Raises:
        ConfigError: no run has a value of a name.

    Example:
        >>> configs = [{"network.num_cells": [64, 64]}, {"network.num_cells": [256, 256]}]
        >>> _config_cells(configs, ["network.num_cells"])
        {'network.num_cells': ['[64, 64]', '[256, 256]']}
    """
    known = dict.fromkeys(name for config in configs for name in config)
    cells = {}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
            raise ConfigError(f"no config.yaml has a value {name!r}{hint}")
        cells[name] = [_cell(config.get(name)) for config in configs]
    return cells


def _differing_names(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of the values, sections aside, that are not the same in all configurations.

    Args:
        configs: one result of :func:`_read_config` for each run.

    Returns:
        The names, in the order of the files. A value that some runs lack differs from the others.

    Example:
        >>> _differing_names([{"seed": 0, "device": "cpu"}, {"seed": 1, "device": "cpu"}])
        ['seed']
    """
    known = dict.fromkeys(name for config in configs for name in config)
    sections = {name.partition(".")[0] for name in known if "." in name}
    cells = _config_cells(configs, [name for name in known if name not in sections])
    return [name for name, values in cells.items() if any(v != values[0] for v in values)]


def _cell(value: Any) -> str | float | None:
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    return json.dumps(_in_order(value), default=str)


def _in_order(value: Any) -> Any:
    """Mappings sorted by keys, which may be of several types; those that JSON lacks as text."""
    if isinstance(value, dict):
        pairs = sorted(value.items(), key=lambda pair: (type(pair[0]).__name__, pair[0]))
        keys = [key if isinstance(key, str | int | float | None) else str(key) for key, _ in pairs]
        return {key: _in_order(entry) for key, (_, entry) in zip(keys, pairs, strict=True)}
    return [*map(_in_order, value)] if isinstance(value, list) else value
