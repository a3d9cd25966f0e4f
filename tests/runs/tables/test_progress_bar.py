from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rlkit_sac.runs.tables.progress_bar import ProgressBar

LEARNED = {"return": -1234.56, "alpha_discrete": 0.2104, "alpha_continuous": 0.0123}
EVALUATED = LEARNED | {"evaluation": -1690.48}


@contextmanager
def terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A terminal for standard error; gives the lines drawn on it, once the block has ended."""
    lines: list[str] = []
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    drawn = bytearray()

    def read() -> None:
        while not drawn.endswith(b"\0"):
            drawn.extend(os.read(main, 65536))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    with monkeypatch.context() as patch, os.fdopen(other, "w", encoding="utf-8") as stream:
        patch.setattr(sys, "stderr", stream)
        yield lines
        stream.write("\0")
    reader.join()
    os.close(main)
    lines += [line.strip() for line in drawn[:-1].decode().splitlines()]


@pytest.mark.parametrize("columns", [10, 25, 40, 60, 80, 200])
def test_each_line_of_a_run_fits_the_terminal(columns, monkeypatch) -> None:
    with terminal(columns, monkeypatch) as lines, ProgressBar(2_000_000) as bar:
        for frames, shown in enumerate([{}, LEARNED, EVALUATED], 1):
            bar.update(400_000 * frames, shown)
            for phase in ("compiling", "evaluating", "saving"):
                with bar.phase(phase):
                    pass
    assert lines
    assert 0 < max(map(len, lines)) <= columns


def test_a_file_gets_lines_with_frames_and_numbers(capsys) -> None:
    with ProgressBar(100) as bar:
        bar.update(40, {"return": -123.456, "alpha": 0.2})
        with bar.phase("evaluating"):
            pass
        bar.update(100)
    text = capsys.readouterr().err
    assert "evaluating" not in text
    assert text.count("\r") == 1
    for part in ("100%", "return=-123.5", "alpha=0.2"):
        assert part in text
