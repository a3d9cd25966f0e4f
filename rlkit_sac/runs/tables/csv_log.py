"""An append-only CSV table: one header, one write per row, order checked."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from rlkit_sac.errors import RunError
from rlkit_sac.runs.files import os_errors_named
from rlkit_sac.untrusted import open_file


class CSVLog:
    """A CSV file that grows by whole rows, so that a reader at any moment sees a valid table.

    The first row fixes the columns. Each row is one unbuffered write that ends in a newline.
    Floats keep every digit, ``None`` is an empty cell, booleans are ``true`` and ``false``, lists
    are JSON. pandas reads such a file with ``read_csv(path)``; before version 3.1 it needs
    ``float_precision="round_trip"`` to keep the last digit.

    Args:
        path: the file; created by the first row, and must not exist before it unless
            :meth:`load_state_dict` is called.
        keys: the columns that identify a row. The first must grow strictly from row to row, or
            stay while the others change to a combination not yet seen at that value.

    Attributes:
        last: the first key of the last row, ``None`` before any row.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "metrics.csv"
    >>> with CSVLog(path) as log:
    ...     log.write({"frames": 10, "alpha": 0.1, "returns": [1.0, 2.5]})
    >>> print(path.read_text(), end="")
    frames,alpha,returns
    10,0.1,"[1.0, 2.5]"
    """

    def __init__(self, path: Path, keys: Sequence[str] = ("frames",)) -> None:
        self.path = path
        self._keys = tuple(keys)
        self._columns: tuple[str, ...] = ()
        self._file: BinaryIO | None = None
        self.last: Any = None
        self._seen: set[tuple[Any, ...]] = set()
        self._size = 0
        self._digest = hashlib.sha256()

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one row.

        Args:
            row: column name to value: a number, NumPy or torch scalar, string, boolean, list
                of numbers, or ``None``.

        Raises:
            RunError: if columns are missing or new, the keys do not grow, or the file cannot be
                written, or was deleted or changed by others.
        """
        columns = self._columns or tuple(row)
        missing = [name for name in dict.fromkeys([*self._keys, *columns]) if name not in row]
        unknown = [name for name in row if name not in columns]
        if missing or unknown:
            parts = [f"missing {', '.join(missing)}"] if missing else []
            parts += [f"unknown {', '.join(unknown)}"] if unknown else []
            raise RunError(f"{self.path}: columns are fixed by the first row: {'; '.join(parts)}")
        cells = [_cell(self.path, name, row[name]) for name in columns]
        self._check_order(row)
        self._append([cells] if self._file else [columns, cells])
        self._columns = columns
        first, others = row[self._keys[0]], tuple(row[key] for key in self._keys[1:])
        self._seen = {*self._seen, others} if first == self.last else {others}
        self.last = first

    def state_dict(self) -> dict[str, Any]:
        """The position of the table; the rows so far are synced to disk.

        Raises:
            RunError: if they cannot be, or the file was deleted or changed by others.
        """
        if self._file is not None:
            self._check_untouched(self._file)
            with os_errors_named(f"cannot write {self.path}"):
                os.fsync(self._file.fileno())
        return {
            "size": self._size,
            "sha256": self._digest.hexdigest(),
            "columns": list(self._columns),
            "last": self.last,
            "seen": [list(others) for others in sorted(self._seen)],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Return to the position of a state; :meth:`cut` then removes what was written after it.

        Raises:
            RunError: if the file does not begin with the rows that the state counted.
        """
        size, left = int(state["size"]), int(state["size"])
        self._digest = hashlib.sha256()
        if self.path.exists():
            with os_errors_named(f"{self.path} cannot be read"), open_file(self.path) as file:
                while left > 0 and (part := file.read(min(left, 2**20))):
                    self._digest.update(part)
                    left -= len(part)
        if left or self._digest.hexdigest() != state["sha256"]:
            raise RunError(
                f"{self.path} is not as it was at the checkpoint: its first {size} bytes were "
                "changed or removed since; put them back to continue"
            )
        self._size = size
        self._columns = tuple(state["columns"])
        self.last = state["last"]
        self._seen = {tuple(others) for others in state["seen"]}

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

    def _check_order(self, row: Mapping[str, Any]) -> None:
        if self.last is None:
            return
        name, *others = self._keys
        value = row[name]
        if value > self.last:
            return
        if value == self.last and tuple(row[key] for key in others) not in self._seen:
            return
        described = ", ".join(f"{key}={row[key]}" for key in self._keys)
        raise RunError(f"{self.path}: row {described} does not come after {name}={self.last}")

    def _check_untouched(self, file: BinaryIO) -> None:
        """Refuse a file that the path no longer leads to, or that others wrote to."""
        with os_errors_named(f"{self.path} was deleted or moved during the run, put it back"):
            found = self.path.stat()
        if not os.path.samestat(found, os.fstat(file.fileno())) or found.st_size != self._size:
            raise RunError(
                f"{self.path} was changed or replaced by another program during the run: put back "
                f"its {self._size} bytes"
            )

    def _append(self, rows: list[Sequence[str]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(rows)
        content = text.getvalue().encode()
        if self._file is not None:
            self._check_untouched(self._file)
        elif self.path.exists():
            raise RunError(f"{self.path} already exists; a log is not mixed with another")
        with os_errors_named(f"cannot write {self.path}"):
            # Unbuffered: one write() is one system call, and a row is never half of another's.
            self._file = self._file or self.path.open("xb", buffering=0)
            written = self._file.write(content)
        if written != len(content):
            raise RunError(f"cannot write {self.path}: only part of a row fitted on the disk")
        self._size += written
        self._digest.update(content)


def _cell(path: Path, name: str, value: Any) -> str:
    if hasattr(value, "tolist"):  # NumPy and torch, scalars and arrays
        value = value.tolist()
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return json.dumps(list(value))
    text = repr(value) if isinstance(value, float) else str(value)
    if "\n" in text or "\r" in text:
        raise RunError(f"{path}: column {name} would break the line: {text!r}")
    return text
