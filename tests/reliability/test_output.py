"""Output that nobody reads: the run ends as it would have."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from tests.reliability.runs import ENVIRONMENT, ROOT, SHORT, assert_same_run, only_run, train

OPTIONS = [*SHORT, "--logging.progress", "true", "--collector.total_frames", "150"]


def start(
    folder: Path, *arguments: str, output: int | IO[str] = subprocess.PIPE
) -> subprocess.Popen[str]:
    """The recipe in a new interpreter, with pipes."""
    command = [sys.executable, str(ROOT / "recipes" / "sac.py"), *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=ENVIRONMENT, stdout=output, stderr=output, text=True
    )


@pytest.mark.parametrize(
    "closed", [["stdout", "stderr"], pytest.param(["stderr"], marks=pytest.mark.slow)]
)
def test_a_run_goes_on_when_its_pipes_close(tmp_path, closed):
    with start(tmp_path, *OPTIONS) as process:
        assert process.stdout.readline().startswith("sac on Pendulum-v1 (cpu): runs/sac/")
        for name in closed:
            getattr(process, name).close()  # as `head -1` does
        if "stdout" not in closed:
            assert f"results          {only_run(tmp_path).relative_to(tmp_path)}" in (
                process.stdout.read()
            )
        assert process.wait(300) == 0
    path = only_run(tmp_path)
    assert json.loads((path / "run.json").read_text())["status"] == "finished"
    assert_same_run(train(tmp_path / "whole", *OPTIONS), path)
