"""Standard output and error that may close while the program goes on, and tables on them."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any


def drop_failed_output() -> None:
    """Let writes to ``sys.stdout`` and ``sys.stderr`` never fail; what cannot be written is lost.

    They may be a pipe whose reader ends (``| head -1``), the terminal of a closed session or a file
    on a full disk, and a run goes on without them. Characters that their encoding lacks are written
    as escapes. Streams that are not the interpreter's own, such as those of a notebook, are left
    alone.

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
        if isinstance(getattr(binary, "raw", binary), io.FileIO):  # not the console of Windows
            with suppress(OSError):
                stream.flush()
            binary = io.BufferedWriter(_Output(stream.fileno(), "wb", closefd=False))
            text = io.TextIOWrapper(
                binary, stream.encoding, errors="backslashreplace", line_buffering=True
            )
            setattr(sys, name, text)


class _Output(io.FileIO):
    """Drops what cannot be written."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or len(data)
        except OSError:
            return len(data)


def summary_table(rows: Mapping[str, str]) -> str:
    """Lay out names and values in two aligned columns.

    >>> print(summary_table({"frames": "500", "wall time": "3 s"}))
    frames     500
    wall time  3 s
    """
    width = max(len(name) for name in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows.items())
