"""Loading of run directories as one pandas table."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from rlkit_sac.analysis.config_columns import differing_options, option_columns, read_config_file
from rlkit_sac.analysis.files import Paths, all_files, as_paths, read_rows, read_runs
from rlkit_sac.analysis.groups import warn
from rlkit_sac.errors import ConfigError, RunError, as_run_error

#: The entries of ``run.json`` that become columns of tables.
IDENTITY = ("recipe", "configuration", "task", "seed", "status")
# The columns that each table has in every run.
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
    damaged run is left out with a warning that names the file. A warning also names frames that do
    not increase.

    Args:
        paths: a run directory, a directory above runs, or several of either.
        table: the file to read: `"evaluations"` (default), `"episodes"` or `"metrics"`.
        config: the options in `config.yaml` that become columns, by dotted name, such as
            `["update.lr_actor", "network.num_cells"]`. True: all options that differ between the
            runs; the seed always is a column. Default: none. Lists and mappings become JSON text; a
            value that is null, or that a run lacks, is missing in the table.

    Returns:
        The rows of the files. The columns are `seed`, `frames` and the return; the columns in
        `config` and the others of the files; and `run` (the run directory), `status`, `recipe`,
        `configuration` (the name given to `--config`, else `default`) and `task`. A run without
        rows adds none.

    Raises:
        ConfigError: a path does not exist, no run is found, `table` is unknown, or no run has a
            value that `config` names.
        RunError: no run can be read.

    Example:
        >>> import json, tempfile
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
    run_dirs = find_runs(paths)
    names = [config] if isinstance(config, str) else config

    def read_run(run_dir: Path) -> tuple[dict[str, Any], pd.DataFrame]:
        values = read_config_file(run_dir) if names is not False else {}
        return values, _load_run(run_dir, table)

    loaded = read_runs(run_dirs, read_run)
    runs = {str(run_dir): frame for run_dir, (_, frame) in loaded.items()}
    configs = [values for values, _ in loaded.values()]
    filled = [frame for frame in runs.values() if not frame.empty]
    data = pd.concat(filled or list(runs.values())[:1], ignore_index=True)
    if names is not False:
        names = differing_options(configs) if names is True else names
        names = [name for name in dict.fromkeys(names) if name not in data.columns]
        for index, (name, cells) in enumerate(option_columns(configs, names).items()):
            data.insert(index, name, data["run"].map(dict(zip(runs, cells, strict=True))))
    return order_columns(data, *TABLES[table])


def order_columns(data: pd.DataFrame, *values: str) -> pd.DataFrame:
    """Return a table with the important columns outside, since pandas prints no middle ones.

    Args:
        data: a table of runs.
        values: the columns of measurements, which come first, after the seed.
    """
    last = ["run", "status", "system", "recipe", "configuration", "task"]
    middle = [name for name in data if name not in ("seed", *values, *last)]
    return data[["seed", *values, *middle, *(name for name in last if name in data)]]


def find_runs(paths: Paths, *, required: bool = True) -> list[Path]:
    """Return the run directories at or below some paths, each once.

    Args:
        paths: a run directory, a directory above runs, or several of either.
        required: whether there must be a run.

    Raises:
        ConfigError: a path does not exist, or there is no run although one is required.
    """
    roots = as_paths(paths)
    for root in roots:
        if not os.path.isdir(root):
            raise ConfigError(f"{root} is not a directory; give a run directory or one above runs")
    files = (file for root in roots for file in all_files(root.resolve()))
    run_dirs = list(dict.fromkeys(file.parent for file in files if file.name == "run.json"))
    if required and not run_dirs:
        raise ConfigError(
            f"no run found under {', '.join(map(str, roots))}: a run directory holds a run.json; "
            "give the directory a recipe printed, or one above it"
        )
    return run_dirs


def _load_run(run_dir: Path, table: str) -> pd.DataFrame:
    description = read_description(run_dir / "run.json")
    file = run_dir / f"{table}.csv"
    rows = read_rows(file, TABLES[table])
    check_frames(file, rows["frames"], strictly=table != "episodes")
    identity = pd.DataFrame(
        {"run": str(run_dir), **{name: description[name] for name in IDENTITY}}, index=rows.index
    )
    return pd.concat([identity, rows], axis=1)


def read_description(file: Path) -> dict[str, Any]:
    r"""Return the contents of a ``run.json``.

    Args:
        file: the path of the file.

    Returns:
        The entries: ``recipe``, ``task``, ``seed``, ``status`` and others.

    Raises:
        RunError: the file is missing or damaged, or lacks one of these entries.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "run.json"
        >>> _ = file.write_text('{"recipe": "sac", "task": "Ant-v5", "seed": 0}')
        >>> read_description(file)
        Traceback (most recent call last):
        rlkit_sac.errors.RunError: .../run.json is damaged: it has no 'status'
    """
    content = read_json(file)
    for name in IDENTITY:
        if name != "configuration" and (not isinstance(content, dict) or name not in content):
            raise RunError(f"{file} is damaged: it has no {name!r}")
    return {"configuration": "default"} | content


def read_json(file: Path) -> Any:
    """Return the contents of a JSON file of a run.

    Args:
        file: the path of the file.

    Raises:
        RunError: the file is missing, or not JSON.
    """
    with as_run_error(f"{file} cannot be read", ValueError):
        return json.loads(file.read_bytes())


def check_frames(file: Path, frames: pd.Series, *, strictly: bool) -> None:
    """Refuse rows without frames, and warn of frames that do not increase.

    Args:
        file: the file of the rows, for messages.
        frames: the frames of the rows, indexed by line.
        strictly: whether equal frames are a reason to warn, too.

    Raises:
        RunError: a row has no frames.

    >>> check_frames(Path("a.csv"), pd.Series([1, 2], index=[2, 3]), strictly=True)
    """
    if frames.isna().any():
        raise RunError(f"{file}, line {frames.index[frames.isna()][0]}: frames is missing")
    steps = frames.diff()
    if len(wrong := steps.index[steps <= 0 if strictly else steps < 0]):
        warn(
            f"{file}, line {wrong[0]}: frames {frames[wrong[0]]} come after "
            f"{frames[wrong[0] - 1]}; curves sort rows, and average those of equal frames"
        )
