"""Files of a run: atomic writes, checksums, JSON, states as JSON and named tensors, CSV tables."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from rlkit_sac.analysis.runs import read_json
from rlkit_sac.errors import RunError, as_run_error


def write_atomically(path: Path, content: bytes) -> str:
    """Replace a file by new content: written aside, synced to disk, renamed.

    Args:
        path: the file; its folder is made where missing.
        content: all of it.

    Returns:
        Its :func:`sha256`.

    Raises:
        RunError: if it cannot be written; an older version stays as it was.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "note"
    >>> _ = write_atomically(file, b"hello")
    >>> file.read_bytes()
    b'hello'
    """
    with as_run_error(f"cannot write {path}"):
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
            sync(path.parent)
        finally:  # only an error leaves it there
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
    return sha256(content)


def sync(folder: Path) -> None:
    """Sync a folder to disk, so that renames in it survive a power failure."""
    if os.name == "nt":  # Windows cannot open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_new_folder(parent: Path, name: str) -> Path:
    """Make a new folder; ``-2``, ``-3``, ... is appended to the name of one that exists.

    >>> import tempfile
    >>> parent = Path(tempfile.mkdtemp())
    >>> [make_new_folder(parent, "run").name for _ in range(2)]
    ['run', 'run-2']
    """
    number = 1
    while True:
        path = parent / (name if number == 1 else f"{name}-{number}")
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            return path
        number += 1


def sha256(content: bytes) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(content).hexdigest()


def read_checked(file: Path, digest: str | None) -> bytes:
    """Return the content of a file, which must have this :func:`sha256`.

    Raises:
        RunError: if it cannot be read, or is damaged.
    """
    with as_run_error(f"{file} cannot be read"):
        content = file.read_bytes()
    if sha256(content) != digest:
        raise RunError(f"{file} is damaged: its checksum is not that which was noted")
    return content


def checksum(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a JSON object without its entry ``sha256``."""
    return sha256(json.dumps(content, sort_keys=True).encode())


def read_described(file: Path, *, version: int) -> dict[str, Any]:
    """Read a JSON object that has a ``format_version`` and, as ``sha256``, its :func:`checksum`.

    Args:
        file: the path of the file.
        version: the only format version that is read.

    Returns:
        The object without ``sha256``.

    Raises:
        RunError: naming the file, if it is missing, damaged or of another format.
    """
    content = read_json(file)
    found = content.get("format_version") if isinstance(content, dict) else None
    if found != version:
        raise RunError(f"{file} has format version {found!r}, this version reads {version}")
    if content.pop("sha256", None) != checksum(content):
        raise RunError(f"{file} is damaged: its checksum does not match its content")
    return content


def split_state(state: Any) -> tuple[Any, dict[str, Tensor]]:
    """Split a nested state into JSON values and named tensors.

    Args:
        state: JSON values, tensors and NumPy arrays in lists, tuples and mappings with any keys.

    Returns:
        A JSON value, and the tensors it refers to by name, copied to the CPU.

    Raises:
        TypeError: for any other value, naming where it is.

    >>> tree, tensors = split_state([2.5, {"weight": torch.ones(2)}])
    >>> tree
    [2.5, {'dict': [['weight', {'tensor': '0/1/weight'}]]}]
    >>> tensors
    {'0/1/weight': tensor([1., 1.])}
    """
    tensors: dict[str, Tensor] = {}

    def split(value: Any, *path: Any) -> Any:
        if isinstance(value, Tensor | np.ndarray | np.generic):
            kind = "tensor" if isinstance(value, Tensor) else "array"
            name = "/".join(map(str, (len(tensors), *path)))  # the number makes it unique
            tensor = (
                value.detach() if isinstance(value, Tensor) else torch.tensor(np.asarray(value))
            )
            tensors[name] = tensor.to("cpu", copy=True).contiguous()
            return {kind: name}
        if isinstance(value, Mapping):
            return {"dict": [[split(k, *path), split(v, *path, k)] for k, v in value.items()]}
        if isinstance(value, list | tuple):
            items = [split(item, *path, index) for index, item in enumerate(value)]
            return items if isinstance(value, list) else {"tuple": items}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        where = "/".join(map(str, path))
        raise TypeError(f"{where}: a {type(value).__name__} cannot be saved")

    return split(state), tensors


def join_state(tree: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Join the parts of a state that :func:`split_state` returned.

    Raises:
        KeyError: for a tensor that is missing.

    >>> join_state(*split_state({"step": (1, 2.5)}))
    {'step': (1, 2.5)}
    """
    if isinstance(tree, list):
        return [join_state(item, tensors) for item in tree]
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    if kind in ("tensor", "array"):
        return tensors[content] if kind == "tensor" else tensors[content].numpy()
    items = join_state(content, tensors)
    return tuple(items) if kind == "tuple" else dict(items)


class CSVLog:
    """A CSV file that grows by whole rows, so that a reader at any moment sees a valid table.

    Each row is one unbuffered write that ends in a newline. A row with further columns adds them to
    the table, with empty cells in the rows before. Floats keep every digit, ``None`` is an empty
    cell, booleans are ``true`` and ``false``, lists are JSON. pandas reads such a file with
    ``read_csv(path)``; before version 3.1 it needs ``float_precision="round_trip"`` to keep the
    last digit.

    Args:
        path: the file, which the first row creates. It must not exist before, unless
            :meth:`load_state_dict` is called.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "metrics.csv"
    >>> CSVLog(path).write({"frames": 10, "alpha": 0.1, "returns": [1.0, 2.5]})
    >>> print(path.read_text(), end="")
    frames,alpha,returns
    10,0.1,"[1.0, 2.5]"
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._columns: tuple[str, ...] = ()
        self._file: BinaryIO | None = None
        self._rows = 0

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one row.

        Args:
            row: the value of each column: a number, NumPy or torch scalar, string, boolean, list
                of numbers, or ``None``.

        Raises:
            RunError: if the file cannot be written.
        """
        columns = tuple(dict.fromkeys((*self._columns, *row)))
        if self._rows and columns != self._columns:
            self._widen(columns)
        cells = [_csv_cell(row.get(name)) for name in columns]
        content = _csv_lines([cells] if self._rows else [columns, cells])
        with as_run_error(f"cannot write {self.path}"):
            # Unbuffered: one write() is one system call, and a row is never half of another's.
            self._file = self._file or self.path.open("xb", buffering=0)
            written = self._file.write(content)
        if written != len(content):
            raise RunError(f"cannot write {self.path}: only part of a row fitted on the disk")
        self._columns = columns
        self._rows += 1

    def state_dict(self) -> dict[str, Any]:
        """Sync the rows to disk, and return their number.

        Raises:
            RunError: if they cannot be synced.
        """
        if self._file is not None:
            with as_run_error(f"cannot write {self.path}"):
                os.fsync(self._file.fileno())
        return {"rows": self._rows}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Return to a number of rows; :meth:`cut` then removes the later ones.

        Raises:
            RunError: if the table has fewer rows than it had.
        """
        self._rows = state["rows"]
        header, *rows = self._whole_lines() or [b""]
        if len(rows) < self._rows:
            raise RunError(
                f"{self.path} has {len(rows)} rows, but had {self._rows} at the checkpoint: put "
                "them back to continue"
            )
        self._columns = tuple(next(csv.reader([header.decode()]))) if self._rows else ()

    def cut(self) -> None:
        """Remove the rows after those that :meth:`load_state_dict` set.

        Raises:
            RunError: if the file cannot be written.
        """
        with as_run_error(f"cannot write {self.path}"):
            if self._rows == 0:
                self.path.unlink(missing_ok=True)
                return
            size = len(b"".join(self._whole_lines()[: self._rows + 1]))
            self._file = self.path.open("r+b", buffering=0)
            self._file.truncate(size)
            self._file.seek(size)

    def close(self) -> None:
        """Close the file; rows that were written are safe without it."""
        if self._file is not None:
            self._file.close()

    def _whole_lines(self) -> list[bytes]:
        """Return the header and the complete rows of the file."""
        lines = self.path.read_bytes().splitlines(keepends=True) if self.path.is_file() else []
        return [line for line in lines if line.endswith(b"\n")]

    def _widen(self, columns: Sequence[str]) -> None:
        """Rewrite the table with more columns."""
        _, *rows = self._whole_lines()
        empty = b"," * (len(columns) - len(self._columns)) + b"\n"
        self.close()
        write_atomically(self.path, _csv_lines([columns]) + b"".join(r[:-1] + empty for r in rows))
        self.cut()  # opens the file again


def _csv_lines(rows: Sequence[Sequence[Any]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _csv_cell(value: Any) -> Any:
    """Return a value for ``csv``, which keeps every digit of a float and leaves ``None`` empty."""
    if hasattr(value, "tolist"):  # NumPy and torch, scalars and arrays
        value = value.tolist()
    return json.dumps(value) if isinstance(value, bool | list | tuple) else value
