"""Standard output and error that never fail, and tables to print on them."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any


def drop_failed_output() -> None:
    """Let ``sys.stdout`` and ``sys.stderr`` drop output that cannot be written, without an error.

    A run goes on when the reader of a pipe ends (``| head -1``), the terminal is closed, or the
    disk is full. Characters that the encoding lacks are written as escapes. Other streams than the
    interpreter's own, such as those of a notebook, are left as they are.

    >>> drop_failed_output()
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not getattr(sys, f"__{name}__"):
            continue
        if stream is None:  # it was closed before the start
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
            continue
        binary = stream.buffer
        # The console of Windows is no FileIO.
        if isinstance(getattr(binary, "raw", binary), io.FileIO):
            with suppress(OSError):
                stream.flush()
            binary = io.BufferedWriter(_LossyFile(stream.fileno(), "wb", closefd=False))
            text = io.TextIOWrapper(
                binary, stream.encoding, errors="backslashreplace", line_buffering=True
            )
            setattr(sys, name, text)


class _LossyFile(io.FileIO):
    """A file that drops data that cannot be written."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or len(data)
        except OSError:
            return len(data)


def summary_table(rows: Mapping[str, str]) -> str:
    """Return names and values as lines with two aligned columns.

    >>> print(summary_table({"frames": "500", "wall time": "3 s"}))
    frames     500
    wall time  3 s
    """
    width = max(len(name) for name in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows.items())
