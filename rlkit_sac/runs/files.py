"""Files of a run: atomic writes, JSON with its own checksum, states as JSON and named tensors."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlkit_sac.analysis.runs import read_json
from rlkit_sac.errors import RunError


@contextlib.contextmanager
def os_errors_named(text: str) -> Iterator[None]:
    """Turn an `OSError` in the block into a `RunError` that says what failed, and why.

    Args:
        text: the beginning of the message.

    >>> with os_errors_named("cannot read notes"):
    ...     Path("nowhere/notes").read_text()
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.RunError: cannot read notes: No such file or directory
    """
    try:
        yield
    except OSError as error:
        raise RunError(f"{text}: {error.strerror or error}") from error


def write_atomically(path: Path, content: bytes) -> str:
    """Replace a file by new content: written aside, synced to disk, renamed.

    Args:
        path: the file; its folder exists.
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
    with os_errors_named(f"cannot write {path}"):
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
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
    with os_errors_named(f"{file} cannot be read"):
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
    [2.5, {'dict': [['weight', {'tensor': '1/weight'}]]}]
    >>> tensors
    {'1/weight': tensor([1., 1.])}
    """
    tensors: dict[str, Tensor] = {}

    def split(value: Any, *path: Any) -> Any:
        if isinstance(value, Tensor | np.ndarray | np.generic):
            kind = "tensor" if isinstance(value, Tensor) else "array"
            name = "/".join(map(str, path))
            while name in tensors:  # keys such as 1 and "1"
                name += "'"
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
