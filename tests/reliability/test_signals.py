"""Ctrl-C and SIGTERM: the step is finished, the state saved, nothing left running."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from pathlib import Path

import pandas as pd
import pytest

from rlkit_sac.runs.failures import resume_command
from tests.reliability.runs import SAC, SHORT, assert_same_run, newest, only_run, run, start, train

PARALLEL = ["--env.num_envs", "2", "--env.parallel", "true"]


def processes_of_group(leader: int) -> list[str]:
    """Command lines of the living processes in a process group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) == leader and fields[0] != "Z":
                found.append((stat.parent / "cmdline").read_text())
    return found


@pytest.mark.parametrize(
    ("number", "code", "options"),
    [
        pytest.param(signal.SIGINT, 130, [], marks=pytest.mark.slow),
        (signal.SIGTERM, 143, []),
        pytest.param(signal.SIGINT, 130, PARALLEL, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 143, PARALLEL, marks=pytest.mark.slow),
    ],
    ids=["SIGINT", "SIGTERM", "SIGINT to the group of processes", "SIGTERM to the group"],
)
def test_a_signal_ends_the_run_after_its_step(tmp_path, number, code, options):
    options = [*SHORT, *options, "--collector.total_frames", "400"]
    with start(tmp_path, *options) as process:
        while process.poll() is None and not list(tmp_path.glob("runs/*/*/*/metrics.csv")):
            time.sleep(0.01)
        os.killpg(process.pid, number)
        stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == code, stderr
    assert ("starting 2 environments" in stdout) == ("--env.parallel" in options)
    assert "Traceback" not in stderr
    path = only_run(tmp_path)
    place = path.relative_to(tmp_path)
    assert stderr.splitlines() == [
        "stopping after this step; Ctrl-C again stops without saving",
        "interrupted",
        f"results so far: {place}",
        f"continue with: {resume_command(place, SAC)}",
    ]
    info = json.loads((path / "run.json").read_text())
    assert (info["status"], info["frames"]) == ("interrupted", newest(path).frames)
    assert 70 <= info["frames"] < 400
    until = time.monotonic() + 60  # what is just exiting may still be listed
    while processes_of_group(process.pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert processes_of_group(process.pid) == []
    done = run(tmp_path, "--resume", str(path))
    assert done.returncode == 0, done.stderr
    assert_same_run(train(tmp_path / "whole", *options), path)


def test_a_time_limit_ends_the_run_and_resume_goes_on(tmp_path):
    options = [*SHORT, "--collector.total_frames", "150"]
    ended = run(tmp_path, *options, "--time_limit", "1e-6")
    assert ended.returncode == 75, ended.stderr
    path = only_run(tmp_path)
    assert ended.stderr.splitlines() == [
        "stopped by time_limit, after 1e-06 seconds",
        f"results so far: {path.relative_to(tmp_path)}",
        f"continue with: {resume_command(path.relative_to(tmp_path), SAC)}",
    ]
    info = json.loads((path / "run.json").read_text())
    assert (info["status"], info["frames"]) == ("interrupted", 1)
    done = run(tmp_path, "--resume", str(path), "--time_limit", "null")
    assert done.returncode == 0, done.stderr
    assert_same_run(train(tmp_path / "whole", *options), path)


def test_a_run_ends_at_the_return_that_it_was_to_reach(tmp_path):
    options = [*SHORT, "--collector.total_frames", "400", "--evaluation.stop_at", "-1e6"]
    path = train(tmp_path, *options)
    info = json.loads((path / "run.json").read_text())
    assert (info["status"], info["frames"]) == ("finished", 110)
    assert newest(path).frames == 110
    evaluations = pd.read_csv(path / "evaluations.csv")
    assert list(evaluations["frames"]) == [110]
