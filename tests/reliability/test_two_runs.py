"""Runs beside each other: folders of their own, the same numbers, shared caches."""

import json
import subprocess
import sys

import pytest

from tests.reliability.runs import ENVIRONMENT, SAC, SHORT, assert_same_run, start

OPTIONS = [*SHORT, "--collector.total_frames", "150", "--replay.storage", "memmap"]


def test_runs_started_together_have_folders_of_their_own_and_the_same_numbers(tmp_path):
    processes = [start(tmp_path, *OPTIONS) for _ in range(2)]
    for process in processes:
        done = process.finish()
        assert done.returncode == 0, done.stderr
    first, second = [info.parent for info in tmp_path.glob("runs/*/*/*/run.json")]
    assert_same_run(first, second)


@pytest.mark.slow
def test_compiled_runs_share_a_cache(tmp_path):
    cache = tmp_path / "cache"
    environment = ENVIRONMENT | {"TORCHINDUCTOR_CACHE_DIR": str(cache)}
    command = [sys.executable, str(SAC), *OPTIONS, "--compile", "true"]
    started = [
        subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in started:
        assert (process.communicate()[1], process.returncode) == ("", 0)
    assert any(cache.iterdir())
    first, second = [info.parent for info in tmp_path.glob("runs/*/*/*/run.json")]
    assert_same_run(first, second)
    compiled = [
        json.loads((path / "run.json").read_text())["compile_from"] for path in (first, second)
    ]
    assert compiled == [1, 1]
