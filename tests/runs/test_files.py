"""Files that are replaced as a whole."""

import os
from pathlib import Path

import pytest

from rlkit_sac.errors import RunError
from rlkit_sac.runs.files import write_atomically


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, Path(), Path("/")):
        with pytest.raises(RunError, match=r"^cannot write .*: it is not a regular file$"):
            write_atomically(path, b"hello")
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]
