"""Checkpoint folders: whole or absent, and every damage is named."""

import errno
import os
import pickle
from pathlib import Path
from stat import S_ISDIR

import pytest

from rlkit_sac.errors import RunError
from rlkit_sac.runs import files as file_writing
from rlkit_sac.runs.checkpoint import Checkpoint, step_folders
from rlkit_sac.runs.saving import write_folder

FILES = {"state.safetensors": b"tensors", "policy.json": b"{}"}


def write(checkpoints: Path, frames: int) -> Path:
    segments = {"segment_0-5.safetensors": "a" * 64}
    content = {"segments": segments, "config": "seed: 3", "tree": {"count": [1, None]}}
    return write_folder(checkpoints, frames, FILES, content)


@pytest.mark.parametrize("name", [*FILES, "checkpoint.json"])
def test_a_flipped_bit_is_found_wherever_it_is(tmp_path, name):
    folder = write(tmp_path, 1)
    content = (folder / name).read_bytes()
    for place in range(len(content)):
        for bit in (0, 6):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            (folder / name).write_bytes(changed)
            with pytest.raises(RunError, match=str(folder / name)):
                Checkpoint.read(folder).content(name)
    (folder / name).write_bytes(content)
    Checkpoint.read(folder)


class Evil:
    """Unpickling it makes a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self):
        return (Path.touch, (self.file,))


@pytest.mark.parametrize("name", [*FILES, "checkpoint.json"])
def test_a_pickle_is_refused_and_not_executed(tmp_path, name):
    folder = write(tmp_path, 1)
    (folder / name).write_bytes(pickle.dumps(Evil(tmp_path / "executed")))
    with pytest.raises(RunError, match=str(folder / name)):
        Checkpoint.read(folder).content(name)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("after", range(4))
def test_a_full_disk_leaves_the_checkpoint_before(tmp_path, monkeypatch, after):
    write(tmp_path, 1)
    calls = []

    def replace(source, target):
        calls.append(target)
        if len(calls) > after:
            raise OSError(errno.ENOSPC, "No space left on device")
        os.rename(source, target)

    monkeypatch.setattr(file_writing.os, "replace", replace)
    if after < 3:  # two files and the manifest
        with pytest.raises(RunError, match="No space left"):
            write(tmp_path, 2)
        assert list(step_folders(tmp_path)) == [1]
        assert [file.name for file in tmp_path.iterdir()] == ["step_1"]
    else:
        write(tmp_path, 2)
    assert Checkpoint.read(tmp_path / "step_1").frames == 1


def test_content_is_on_the_disk_before_it_has_its_name_and_that_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []
    monkeypatch.setattr(os, "fsync", lambda file: done.append(S_ISDIR(os.fstat(file).st_mode)))
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda *names: done.append(replace(*names)))
    file_writing.write_atomically(tmp_path / "note", b"hello")
    assert done == [False, None, True]
