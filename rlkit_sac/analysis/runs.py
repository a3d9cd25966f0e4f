"""From run directories to one pandas table."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Literal

import pandas as pd

from rlkit_sac.errors import ConfigError, RunError

IDENTITY = ("recipe", "task", "seed", "status")


def load_runs(
    paths: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    table: Literal["evaluations", "episodes", "metrics"] = "evaluations",
) -> pd.DataFrame:
    r"""Read one table of every run found under the given paths.

    A run directory is any directory that holds a `run.json`; the search goes down from each path.
    A run that is still being written, or was killed, is read up to its last complete row.

    Args:
        paths: a run directory, a directory above runs, or several of either.
        table: which file to read: `"evaluations"` (default), `"episodes"` or `"metrics"`.

    Returns:
        One row per row of the files. The columns `run` (the run directory), `recipe`, `task`,
        `seed` and `status` come first, the file's own columns follow. A run without rows adds none.

    Raises:
        ConfigError: a path does not exist, no run is found, or `table` is unknown.
        RunError: a file of a run cannot be read as what it should be.

    Example:
        >>> import tempfile
        >>> run_dir = Path(tempfile.mkdtemp())
        >>> description = {"recipe": "sac", "task": "Pendulum-v1", "seed": 0, "status": "finished"}
        >>> _ = (run_dir / "run.json").write_text(json.dumps(description))
        >>> csv = "frames,return_mean\n1000,-900.0\n2000,-150.0\n"
        >>> _ = (run_dir / "evaluations.csv").write_text(csv)
        >>> load_runs(run_dir)[["task", "seed", "frames", "return_mean"]]
                  task  seed  frames  return_mean
        0  Pendulum-v1     0    1000       -900.0
        1  Pendulum-v1     0    2000       -150.0
    """
    if table not in ("evaluations", "episodes", "metrics"):
        raise ConfigError(f"table is {table!r}; choose 'evaluations', 'episodes' or 'metrics'")
    roots = [Path(paths)] if isinstance(paths, (str, PathLike)) else [Path(path) for path in paths]
    run_dirs = list(dict.fromkeys(run_dir for root in roots for run_dir in _find_runs(root)))
    if not run_dirs:
        where = ", ".join(map(str, roots)) or "an empty list of paths"
        raise ConfigError(
            f"no run found under {where}: a run directory holds a run.json; "
            "give the directory a recipe printed, or one above it"
        )
    frames = [_load_run(run_dir, table) for run_dir in run_dirs]
    filled = [frame for frame in frames if not frame.empty]
    return pd.concat(filled or frames[:1], ignore_index=True)


def _find_runs(root: Path) -> Iterator[Path]:
    if not root.is_dir():
        raise ConfigError(f"{root} is not a directory; give a run directory or one above runs")
    return (file.parent for file in sorted(root.resolve().rglob("run.json")))


def _load_run(run_dir: Path, table: str) -> pd.DataFrame:
    description = _read_description(run_dir / "run.json")
    rows = _read_complete_rows(run_dir / f"{table}.csv")
    identity = pd.DataFrame({"run": str(run_dir), **description}, index=rows.index)
    return pd.concat([identity, rows], axis=1)


def _read_description(file: Path) -> dict[str, object]:
    try:
        description = json.loads(file.read_text(encoding="utf-8"))
        return {name: description[name] for name in IDENTITY}
    except (OSError, ValueError, TypeError) as error:
        raise RunError(f"{file} cannot be read as JSON: {error}") from error
    except KeyError as error:
        raise RunError(f"{file} has no entry {error}; its entries: {list(description)}") from error


def _read_complete_rows(file: Path) -> pd.DataFrame:
    """The rows whose newline is written: what follows the last newline is a row cut short."""
    try:
        complete, newline, _ = file.read_bytes().rpartition(b"\n")
    except FileNotFoundError:
        return pd.DataFrame()
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error}") from error
    if not newline:
        return pd.DataFrame()
    try:
        return pd.read_csv(io.BytesIO(complete))
    except ValueError as error:
        raise RunError(f"{file} cannot be read as a table: {error}") from error
