"""Reading CSV files, with errors that name the file and the line."""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pandas as pd

from rlkit_sac.errors import RunError
from rlkit_sac.untrusted import open_file

T = TypeVar("T")
Paths = str | PathLike[str] | Iterable[str | PathLike[str]]

# Before version 3.1, pandas may miss the last digit of a number unless asked; since then asking is
# deprecated.
_OLD_PANDAS = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
_EXACT_FLOATS: dict[str, Any] = {"float_precision": "round_trip"} if _OLD_PANDAS else {}


def as_paths(paths: Paths) -> list[Path]:
    """One path or several, as a list.

    Args:
        paths: a path or an iterable of paths.
    """
    return [Path(paths)] if isinstance(paths, (str, PathLike)) else [Path(path) for path in paths]


def files_below(root: Path) -> list[Path]:
    """All files of a folder and its folders, also while a run deletes some.

    Args:
        root: the folder; folders behind links are left out.
    """
    return sorted(Path(folder, name) for folder, _, names in os.walk(root) for name in names)


def read_each(runs: Sequence[Path], read: Callable[[Path], T]) -> dict[Path, T]:
    """Read what can be read of several runs.

    Args:
        runs: the runs' paths.
        read: what reads one; it raises a RunError for a damaged one.

    Returns:
        The results by path. Damaged runs are left out with a warning that says why.

    Raises:
        RunError: no run can be read.
    """
    results, problems = {}, []
    for run in runs:
        try:
            results[run] = read(run)
        except RunError as error:  # noqa: PERF203
            problems.append(str(error))
    if not results:
        raise RunError("; ".join(problems))
    if problems:
        warnings.warn(
            f"{len(problems)} of {len(runs)} runs left out: {'; '.join(problems)}", stacklevel=3
        )
    return results


def read_rows(
    file: Path,
    numbers: Sequence[str],
    *,
    header: Sequence[str] = (),
    skip: int = 0,
    opener: Callable[[Path, int], BinaryIO] = open_file,
) -> pd.DataFrame:
    r"""Read the complete rows of a CSV file: those whose newline is written.

    Args:
        file: the file.
        numbers: columns that must be there, and hold numbers or nothing.
        header: the columns of a file without a header line.
        skip: lines before the header.
        opener: opens the file, up to a number of bytes.

    Returns:
        The rows; their index is the number of their line. Without a complete row or without the
        file, an empty table.

    Raises:
        RunError: a line is not UTF-8 text, has another number of cells than the header, or lacks a
            number or column. The message names the file and the line.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "evaluations.csv"
        >>> _ = file.write_text("frames,return_mean\n1000,-900.0\n2000,-150.0\n3000,-1")
        >>> read_rows(file, ["frames"])
           frames  return_mean
        2    1000       -900.0
        3    2000       -150.0
    """
    try:
        with opener(file, 2**30) as opened:
            complete = opened.read().rpartition(b"\n")[0]
        text = complete.decode("utf-8-sig")
    except FileNotFoundError:
        return pd.DataFrame(columns=list(numbers))
    except UnicodeDecodeError as error:
        number = complete[: error.start].count(b"\n") + 1
        raise RunError(f"{file}, line {number}: not UTF-8 text") from error
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error}") from error
    lines = [(k, line) for k, line in enumerate(text.split("\n"), 1) if k > skip and line.strip()]
    if not lines:
        return pd.DataFrame(columns=list(numbers))
    cells = len(header)
    for number, line in lines:
        unquoted = re.sub(r'"[^"]*"', "", line)
        cells = cells or unquoted.count(",") + 1
        if unquoted.count(",") + 1 != cells or '"' in unquoted:
            raise RunError(f"{file}, line {number}: {cells} cells are expected, not {line[:80]!r}")
    try:
        rows = pd.read_csv(
            io.StringIO("\n".join(line for _, line in lines)),
            names=list(header) or None,
            **_EXACT_FLOATS,
        )
        rows.index = pd.Index([number for number, _ in lines][0 if header else 1 :])
        check_numbers(file, rows, numbers)
        for name in numbers:
            if rows[name].dtype == object:  # integers of more than 64 bits
                rows[name] = rows[name].astype(float)
    except (ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise RunError(f"{file} cannot be read as a table: {reason}") from error
    return rows


def check_numbers(file: Path, rows: pd.DataFrame, columns: Sequence[str]) -> None:
    """Refuse columns that are not there or hold something else than numbers.

    Args:
        file: where the rows are from.
        rows: a result of :func:`read_rows`.
        columns: the columns.

    Raises:
        RunError: a column is missing, or a cell is not a number. The message names file and line.
    """
    missing = [name for name in columns if name not in rows.columns]
    if missing:
        raise RunError(
            f"{file} has no column {', '.join(missing)}; its columns: {', '.join(rows.columns)}"
        )
    for name in columns:
        numbers = pd.to_numeric(rows[name], errors="coerce")
        is_flag = rows[name].map(lambda cell: isinstance(cell, (bool, np.bool_)))
        wrong = rows[name][(numbers.isna() & rows[name].notna()) | is_flag]
        if len(wrong):
            raise RunError(
                f"{file}, line {wrong.index[0]}: {name} should be a number, not {wrong.iloc[0]!r}"
            )
