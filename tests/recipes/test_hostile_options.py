"""Options that no run can have: one line, exit code 2, and nothing is created."""

import tempfile
from pathlib import Path

import pytest

from tests.recipes.running import Recipe

SAC = Recipe("sac", "SACConfig")

COMMANDS = {
    "a path too long": (["--resume", "x" * 300], f"--resume: {'x' * 300} does not exist"),
    "another": (["--warm_start.run", "x" * 300], f"--warm_start.run: {'x' * 300} does not"),
    "a folder too long": (["--logging.dir", "x" * 300], "cannot be written: File name too long"),
    "a null character": (["--resume", "a\0b"], "--resume: a\\x00b does not exist; give a run"),
    "two lines": (["--device", "a\nb"], "--device: must be a text without control characters"),
    "bytes": (["--env.id", "a\udcff"], "--env.id: must be a text without control characters"),
    "an unknown device": (["--device", "cpu:7"], "--device: device 'cpu:7' is not available here"),
    "a number of frames": (["--replay.capacity", "9" * 400], "must be an integer of 64 bits"),
    "threads": (["--num_threads", "1e9"], "must be >= 1 and <= 1024, got 1000000000"),
    "layers": (["--network.num_cells", str([8] * 2_000)], "should have at most 1000 items"),
    "critics": (["--loss.num_qvalue_nets", "1e9"], "must be >= 1 and <= 1000, got 1000000000"),
    "environments": (["--env.num_envs", "1e9"], "must be >= 1 and <= 10000, got 1000000000"),
    "seeds": (["--seeds", "0-4294967295"], "--seeds: at most 1000 seeds, got "),
    "a device as a file": (["--config", "/dev/zero"], "/dev/zero: cannot be read: it is not a"),
    "nesting": (["--network.num_cells", "[" * 5_000], "expected a list, each item an integer, got"),
}


@pytest.mark.parametrize(("arguments", "message"), COMMANDS.values(), ids=COMMANDS.keys())
def test_a_hostile_option_is_one_line_and_leaves_nothing(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    code, error = SAC.stop(capsys, *arguments)
    assert code == 2
    (line,) = error.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert len(line) < 1_100
    assert list(tmp_path.iterdir()) == list(temporary.iterdir()) == []
