"""An append-only CSV table: one header, one write per row, order checked."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from rlkit_sac.errors import RunError
from rlkit_sac.runs.files import os_errors_named


class CSVLog:
    """A CSV file that grows by whole rows, so that a reader at any moment sees a valid table.

    The first row fixes the columns. Each row is one unbuffered write that ends in a newline.
    Floats keep every digit, ``None`` is an empty cell, booleans are ``true`` and ``false``, lists
    are JSON. pandas reads such a file with ``read_csv(path)``; before version 3.1 it needs
    ``float_precision="round_trip"`` to keep the last digit.

    Args:
        path: the file; created by the first row, and must not exist before it unless
            :meth:`load_state_dict` is called.

    Attributes:
        last: ``frames`` of the last row, -1 before any row.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "metrics.csv"
    >>> with CSVLog(path) as log:
    ...     log.write({"frames": 10, "alpha": 0.1, "returns": [1.0, 2.5]})
    >>> print(path.read_text(), end="")
    frames,alpha,returns
    10,0.1,"[1.0, 2.5]"
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._columns: tuple[str, ...] = ()
        self._file: BinaryIO | None = None
        self.last = -1
        self._size = 0

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one row.

        Args:
            row: column name to value: a number, NumPy or torch scalar, string, boolean, list
                of numbers, or ``None``.

        Raises:
            RunError: if the file cannot be written.
        """
        columns = self._columns or tuple(row)
        frames = int(row["frames"])
        cells = [_cell(row[name]) for name in columns]
        self._append([cells] if self._file else [columns, cells])
        self._columns, self.last = columns, frames

    def state_dict(self) -> dict[str, Any]:
        """The position of the table; the rows so far are synced to disk.

        Raises:
            RunError: if they cannot be.
        """
        if self._file is not None:
            with os_errors_named(f"cannot write {self.path}"):
                os.fsync(self._file.fileno())
        return {"size": self._size, "columns": list(self._columns), "last": self.last}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Return to the position of a state; :meth:`cut` then removes what was written after it.

        Raises:
            RunError: if the file is gone, or shorter than it was.
        """
        self._size, self.last = state["size"], state["last"]
        self._columns = tuple(state["columns"])
        found = self.path.stat().st_size if self.path.is_file() else 0
        if found < self._size:
            raise RunError(
                f"{self.path} has {found} bytes, but had {self._size} at the checkpoint: put them "
                "back to continue"
            )

    def cut(self) -> None:
        """Remove the rows after the position that :meth:`load_state_dict` set.

        Raises:
            RunError: if the file cannot be written.
        """
        with os_errors_named(f"cannot write {self.path}"):
            if self._size == 0:
                self.path.unlink(missing_ok=True)
                return
            self._file = self.path.open("r+b", buffering=0)
            self._file.truncate(self._size)
            self._file.seek(self._size)

    def close(self) -> None:
        """Close the file; rows already written need no closing to be safe."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> CSVLog:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _append(self, rows: list[Sequence[str]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(rows)
        content = text.getvalue().encode()
        with os_errors_named(f"cannot write {self.path}"):
            # Unbuffered: one write() is one system call, and a row is never half of another's.
            self._file = self._file or self.path.open("xb", buffering=0)
            written = self._file.write(content)
        if written != len(content):
            raise RunError(f"cannot write {self.path}: only part of a row fitted on the disk")
        self._size += written


def _cell(value: Any) -> str:
    if hasattr(value, "tolist"):  # NumPy and torch, scalars and arrays
        value = value.tolist()
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return json.dumps(list(value))
    return repr(value) if isinstance(value, float) else str(value)
