"""Tables as files: CSV with all digits, Markdown for readers."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from rlkit_sac.errors import ConfigError, prefix_errors


def write_table(table: pd.DataFrame, path: str | PathLike[str]) -> None:
    """Write a table to a file.

    Args:
        table: the table, such as a result of :func:`final_performance`. Its index is left out.
        path: the file: `.csv` for all digits, `.md` for the format of :func:`markdown_table`.
            Missing directories are created.

    Raises:
        ConfigError: the path has another suffix.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "final.csv"
        >>> write_table(pd.DataFrame({"task": ["Pendulum-v1"], "mean": [-150.125]}), file)
        >>> print(file.read_text(), end="")
        task,mean
        Pendulum-v1,-150.125
    """
    path = Path(path)
    if path.suffix == ".csv":
        text = table.to_csv(index=False, lineterminator="\n")
    elif path.suffix == ".md":
        text = markdown_table(table)
    else:
        raise ConfigError(f"{path} ends in {path.suffix!r}; a table is written as .csv or .md")
    write_text(path, text)


def write_text(path: Path, text: str) -> None:
    """Write a file, and create the folders above it that are missing.

    Raises:
        ConfigError: the file cannot be written.
    """
    with prefix_errors(f"cannot write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace")


def markdown_table(table: pd.DataFrame) -> str:
    """Return a table as Markdown with aligned columns.

    Args:
        table: the table. Numbers are rounded to 4 significant digits, but below 1e15 never before
            the decimal point; integers keep all digits, missing values are empty.

    Returns:
        The lines, each ending in a newline.

    Example:
        >>> print(markdown_table(pd.DataFrame({"task": ["Ant", "Pole"], "mean": [12345.6, 0.5]})))
        | task |  mean |
        | :--- | ----: |
        | Ant  | 12346 |
        | Pole |   0.5 |
        <BLANKLINE>
    """
    columns = []
    for name in table.columns:
        cells = [_escape(str(name)), *(_escape(cell_text(value)) for value in table[name])]
        width = max(3, *map(len, cells))
        numeric = pd.api.types.is_numeric_dtype(table[name])
        cells = [cell.rjust(width) if numeric else cell.ljust(width) for cell in cells]
        rule = "-" * (width - 1)
        columns.append([cells[0], f"{rule}:" if numeric else f":{rule}", *cells[1:]])
    return "".join(f"| {' | '.join(line)} |\n" for line in zip(*columns, strict=True))


def cell_text(value: Any) -> str:
    """Return a cell as text, rounded as in :func:`markdown_table`."""
    if pd.isna(value):
        return ""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def _escape(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
