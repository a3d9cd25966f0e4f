"""Memory-mapped files of replay: their space is theirs, and freed with the process."""

import gc
import os
import signal
from pathlib import Path

import pytest
import torch
from tensordict import TensorDict

from rlkit_sac.data import make_replay_buffer
from tests import processes
from tests.small_disk import MOUNT, NOT_PERMITTED

EXAMPLE = TensorDict(observation=torch.zeros(100))  # 408 bytes in files, with the index
MAKE = """
import logging, os, resource, signal
from pathlib import Path
import torch
from tensordict import TensorDict
from rlkit_sac.data import make_replay_buffer
from rlkit_sac.data.replay.memmap import make_memmap_storage
from rlkit_sac.errors import ConfigError

logging.getLogger("torchrl").setLevel(logging.WARNING)
example = TensorDict(observation=torch.zeros(100))
disk = Path(os.environ["TMPDIR"])
"""


def run(tmp_path: Path, code: str) -> str:
    """What a script prints whose temporary folder is ``tmp_path / "disk"``."""
    disk = tmp_path / "disk"
    disk.mkdir()
    script = tmp_path / "script.py"
    script.write_text(code)
    done = processes.run(script, cwd=tmp_path, env=os.environ | {"TMPDIR": str(disk)})
    if done.returncode == NOT_PERMITTED:
        pytest.skip(f"no disk of its own: {done.stderr}")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def mapped(folder: Path) -> bool:
    """Whether this process has files of a folder in its memory, with or without a name."""
    return str(folder) in Path("/proc/self/maps").read_text()


def test_temporary_files_lie_on_disk_and_go_with_the_buffer(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    buffer = make_replay_buffer(EXAMPLE, capacity=50, batch_size=4, storage="memmap")
    buffer.extend(EXAMPLE.expand(20).clone())
    assert mapped(tmp_path)
    assert not list(tmp_path.iterdir())
    del buffer
    gc.collect()
    assert not mapped(tmp_path)


@pytest.mark.parametrize(
    "platform", ["", pytest.param("del os.posix_fallocate", marks=pytest.mark.slow)]
)
def test_a_disk_that_fills_up_later_harms_no_transition(tmp_path, platform):
    """Without its space the process would be killed by SIGBUS when it writes the next page."""
    assert run(
        tmp_path,
        MOUNT.format(path=str(tmp_path / "disk"), size="3m")
        + MAKE
        + platform
        + """
replay = make_replay_buffer(example, capacity=4000, batch_size=8, storage="memmap")
fill(disk)
rows = torch.rand(6000, 100)
for part in rows.split(50):
    replay.extend(TensorDict(observation=part, batch_size=[50]))
stored = replay[:]["observation"]
print(torch.equal(stored, torch.cat([rows[4000:], rows[2000:4000]])))
sample = replay.sample()
print(torch.equal(sample["observation"], stored[sample["index"]]))
""",
    ).split() == ["True", "True"]


def test_a_killed_process_leaves_no_file(tmp_path):
    (tmp_path / "disk").mkdir()
    script = tmp_path / "script.py"
    script.write_text(
        MAKE
        + """
replay = make_replay_buffer(example, capacity=4000, batch_size=8, storage="memmap")
replay.extend(example.expand(10).clone())
os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    done = processes.run(script, cwd=tmp_path, env=os.environ | {"TMPDIR": str(tmp_path / "disk")})
    assert done.returncode == -signal.SIGKILL
    assert not list((tmp_path / "disk").iterdir())
