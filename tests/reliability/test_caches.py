"""No home, and folders for caches and temporary files that cannot be used.

Permissions do not bind every user, so a file takes the place of a folder; nobody can make a file in
``/proc``. Such folders are looked up at import: each run has a new interpreter.
"""

import json
import os
import subprocess
import sys

import pytest

from tests.reliability.runs import ENVIRONMENT, SAC, SHORT, only_run, table

OPTIONS = [*SHORT, "--collector.total_frames", "120", "--replay.storage", "memmap"]
NO_HOME = dict.fromkeys(("HOME", "USER", "LOGNAME", "XDG_CACHE_HOME"))
UNUSABLE = dict.fromkeys(("HOME", "TMPDIR", "MPLCONFIGDIR"), "FILE")
UNUSABLE |= {f"XDG_{name}_HOME": "FILE" for name in ("CACHE", "CONFIG", "DATA", "STATE")}


def run(folder, *options, **changes):
    """The recipe in a new interpreter, with other variables; None removes one."""
    file = folder / "a file"
    file.touch()
    environment = ENVIRONMENT | {k: str(file) if v == "FILE" else v for k, v in changes.items()}
    return subprocess.run(
        [sys.executable, str(SAC), *options],
        cwd=folder,
        env={name: value for name, value in environment.items() if value is not None},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    "changes",
    [
        NO_HOME | {"MPLCONFIGDIR": "FILE"},
        pytest.param(UNUSABLE, marks=pytest.mark.slow),
        pytest.param(NO_HOME | {"HOME": "/nowhere"}, marks=pytest.mark.slow),
        pytest.param({"HOME": "/proc", "XDG_CACHE_HOME": "/proc"}, marks=pytest.mark.slow),
    ],
    ids=["no home", "files in their place", "a missing home", "a home that takes no files"],
)
def test_a_run_needs_no_home(tmp_path, changes):
    done = run(tmp_path, *OPTIONS, "--compile", "false", **changes)
    assert done.returncode == 0, done.stderr
    of_matplotlib = ("mkdir -p failed for path", "Matplotlib created a temporary cache directory")
    assert [line for line in done.stderr.splitlines() if not line.startswith(of_matplotlib)] == []
    path = only_run(tmp_path)
    assert json.loads((path / "run.json").read_text())["status"] == "finished"
    assert (path / "figures" / "learning_curve.png").stat().st_size > 1000
    assert {each.name for each in tmp_path.iterdir()} == {"a file", "runs"}


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="a folder that takes no files")
@pytest.mark.slow  # tests/updates/test_hidden_torch_parts.py has quick ones
def test_a_run_goes_on_uncompiled_where_nothing_can_be_cached(tmp_path):
    tables = {}
    for compiled in ("true", "false"):
        folder = tmp_path / compiled
        folder.mkdir()
        options = [*OPTIONS, "--compile", compiled]
        done = run(folder, *options, TORCHINDUCTOR_CACHE_DIR="/proc")
        assert done.returncode == 0, done.stderr
        # A warning of each of the two graphs.
        assert done.stderr.count("Warning: ") == 2 * (compiled == "true")
        assert ("its updates run uncompiled" in done.stderr) == (compiled == "true")
        tables[compiled] = [table(only_run(folder), name) for name in ("metrics", "evaluations")]
    assert tables["true"] == tables["false"]
