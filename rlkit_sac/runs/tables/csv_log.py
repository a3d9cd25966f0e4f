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
from rlkit_sac.runs.files import os_errors_named, write_atomically


class CSVLog:
    """A CSV file that grows by whole rows, so that a reader at any moment sees a valid table.

    Each row is one unbuffered write that ends in a newline. One with further columns adds them to
    the table, where the rows before have empty cells. Floats keep every digit, ``None`` is an empty
    cell, booleans are ``true`` and ``false``, lists are JSON. pandas reads such a file with
    ``read_csv(path)``; before version 3.1 it needs ``float_precision="round_trip"`` to keep the
    last digit.

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
        self._size = self._rows = 0

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one row.

        Args:
            row: column name to value: a number, NumPy or torch scalar, string, boolean, list
                of numbers, or ``None``.

        Raises:
            RunError: if the file cannot be written.
        """
        columns = tuple(dict.fromkeys((*self._columns, *row)))
        if self._file is not None and columns != self._columns:
            self._widen(columns)
        frames = int(row["frames"])
        cells = [_cell(row.get(name)) for name in columns]
        self._append([cells] if self._file else [columns, cells])
        self._columns, self.last = columns, frames
        self._rows += 1

    def state_dict(self) -> dict[str, Any]:
        """The position of the table; the rows so far are synced to disk.

        Raises:
            RunError: if they cannot be.
        """
        if self._file is not None:
            with os_errors_named(f"cannot write {self.path}"):
                os.fsync(self._file.fileno())
        position = {"size": self._size, "rows": self._rows, "last": self.last}
        return {**position, "columns": list(self._columns)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Return to the position of a state; :meth:`cut` then removes what was written after it.

        Raises:
            RunError: if the file is gone, or shorter than it was.
        """
        self._size, self.last = state["size"], state["last"]
        self._columns = tuple(state["columns"])
        content = self.path.read_bytes() if self._size and self.path.is_file() else b""
        if len(content) < self._size:
            raise RunError(
                f"{self.path} has {len(content)} bytes, but had {self._size} at the checkpoint: "
                "put them back to continue"
            )
        self._rows = state.get("rows", content.count(b"\n", 0, self._size) - 1)
        header, *rows = content.splitlines(keepends=True) or [b""]
        columns = next(csv.reader([header.decode()]))
        if len(columns) > len(self._columns):  # they were added after the state
            self._columns, kept = tuple(columns), rows[: self._rows]
            self._size = len(b"".join((header, *kept)))

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

    def _widen(self, columns: Sequence[str]) -> None:
        """Rewrite the table with more columns."""
        _, *rows = self.path.read_bytes().splitlines()
        empty = b"," * (len(columns) - len(self._columns)) + b"\n"
        content = _lines([columns]) + b"".join(row + empty for row in rows)
        self.close()
        write_atomically(self.path, content)
        self._size = len(content)
        self.cut()  # which opens it again

    def _append(self, rows: list[Sequence[str]]) -> None:
        content = _lines(rows)
        with os_errors_named(f"cannot write {self.path}"):
            # Unbuffered: one write() is one system call, and a row is never half of another's.
            self._file = self._file or self.path.open("xb", buffering=0)
            written = self._file.write(content)
        if written != len(content):
            raise RunError(f"cannot write {self.path}: only part of a row fitted on the disk")
        self._size += written


def _lines(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


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
