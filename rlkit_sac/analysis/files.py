"""Reading of CSV files, with errors that name the file and the line."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from rlkit_sac.errors import RunError, as_run_error

T = TypeVar("T")
Paths = str | PathLike[str] | Iterable[str | PathLike[str]]

# Before version 3.1, pandas may miss the last digit of a number unless asked; since then asking is
# deprecated.
_OLD_PANDAS = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
_EXACT_FLOATS: dict[str, Any] = {"float_precision": "round_trip"} if _OLD_PANDAS else {}


def as_paths(paths: Paths) -> list[Path]:
    """Return one path or several as a list.

    Args:
        paths: a path or an iterable of paths.
    """
    return [Path(paths)] if isinstance(paths, (str, PathLike)) else [Path(path) for path in paths]


def all_files(root: Path) -> list[Path]:
    """Return all files in a folder and the folders below it.

    A run may delete files at the same time.

    Args:
        root: the folder; links to other folders are not followed.
    """
    return sorted(Path(folder, name) for folder, _, names in os.walk(root) for name in names)


def read_runs(runs: Sequence[Path], read: Callable[[Path], T]) -> dict[Path, T]:
    """Read several runs, and leave out damaged ones.

    Args:
        runs: the paths of the runs.
        read: the function that reads a run; it raises a RunError if the run is damaged.

    Returns:
        The results by path. A warning says why runs are left out.

    Raises:
        RunError: no run can be read.
    """
    results, problems = {}, []
    for run in runs:
        try:
            results[run] = read(run)
        except RunError as error:  # noqa: PERF203
            problems.append(str(error))
    if problems and not results:
        raise RunError("; ".join(problems))
    if problems:
        warnings.warn(
            f"{len(problems)} of {len(runs)} runs left out: {'; '.join(problems)}", stacklevel=3
        )
    return results


def read_rows(
    file: Path, numbers: Sequence[str], *, header: Sequence[str] = (), skip: int = 0
) -> pd.DataFrame:
    r"""Return the complete rows of a CSV file, which end in a newline.

    Args:
        file: the CSV file.
        numbers: the columns that must exist, with cells that are numbers or empty.
        header: the names of the columns, for a file without a header line.
        skip: the number of lines before the header.

    Returns:
        The rows, indexed by the number of their line. The table is empty if there is no complete
        row or no file.

    Raises:
        RunError: the file is no table of UTF-8 text, or a column or a number is missing. The
            message names the file, and the line if one is wrong.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "evaluations.csv"
        >>> _ = file.write_text("frames,return_mean\n1000,-900.0\n2000,-150.0\n3000,-1")
        >>> read_rows(file, ["frames"])
           frames  return_mean
        2    1000       -900.0
        3    2000       -150.0
    """
    with as_run_error(f"{file} cannot be read", ValueError):
        complete = file.read_bytes().rpartition(b"\n")[0] if file.exists() else b""
        try:
            rows = pd.read_csv(
                io.BytesIO(complete),
                names=list(header) or None,
                index_col=False,
                skiprows=skip,
                encoding="utf-8-sig",
                **_EXACT_FLOATS,
            )
        except pd.errors.EmptyDataError:
            return pd.DataFrame(columns=list(numbers))
    rows.index += skip + (1 if header else 2)
    check_numbers(file, rows, numbers)
    return rows


def check_numbers(file: Path, rows: pd.DataFrame, columns: Sequence[str]) -> None:
    """Refuse rows without some columns, or with other cells than numbers in them.

    Args:
        file: the file of the rows, for the error.
        rows: a result of :func:`read_rows`.
        columns: the columns that must hold numbers.

    Raises:
        RunError: a column is missing, or a cell is not a number. The message names file and line.
    """
    missing = [name for name in columns if name not in rows.columns]
    if missing:
        raise RunError(
            f"{file} has no column {', '.join(missing)}; its columns: {', '.join(rows.columns)}"
        )
    for name in columns:
        if len(wrong := find_non_numbers(rows[name])):
            raise RunError(
                f"{file}, line {wrong.index[0]}: {name} should be a number, not {wrong.iloc[0]!r}"
            )


def find_non_numbers(cells: pd.Series) -> pd.Series:
    """Return the cells that are neither numbers nor empty.

    >>> find_non_numbers(pd.Series(["1.5", None, "text"])).tolist()
    ['text']
    """
    return cells[pd.to_numeric(cells, errors="coerce").isna() & cells.notna()]
