"""A run that is killed at any moment can be loaded, and goes on as if nothing had happened."""

import json
import random
import time
from pathlib import Path

import pandas as pd
import pytest

from rlkit_sac.runs import load_policy
from tests.reliability.runs import SHORT, assert_same_run, newest, only_run, run, start, train

FREQUENT = [*SHORT, "--checkpoint.interval", "5", "--collector.total_frames", "130"]


def kill_at_random(folder: Path, moments: random.Random, *arguments: str) -> bool:
    """Kill a run some time after its first checkpoint; whether it was still running."""
    with start(folder, *arguments) as process:
        while process.poll() is None and not list(folder.glob("runs/*/*/*/checkpoints/step_*")):
            time.sleep(0.01)
        time.sleep(moments.uniform(0.0, 0.8))
        alive = process.poll() is None
        process.kill()
    return alive


@pytest.mark.parametrize(
    "kills", [2, pytest.param(20, marks=pytest.mark.slow)], ids=lambda kills: f"{kills} kills"
)
def test_kills_at_random_moments_change_nothing_of_the_result(tmp_path, kills):
    whole = train(tmp_path / "whole", *FREQUENT)
    moments, killed = random.Random(0), 0
    number = 0
    while killed < kills:
        folder = tmp_path / f"killed{number}"
        folder.mkdir()
        number += 1
        arguments = list(FREQUENT)
        for _ in range(4):
            if not kill_at_random(folder, moments, *arguments):
                break
            path = only_run(folder)
            status = json.loads((path / "run.json").read_text())["status"]
            if status == "finished":  # the kill came after the end
                break
            killed += 1
            assert status == "running"
            frames = newest(path).frames
            assert load_policy(path).in_keys == ["observation"]
            metrics = path / "metrics.csv"
            if metrics.exists():  # whole rows, in order, whatever the moment
                complete = metrics.read_text().rpartition("\n")[0].splitlines()
                assert len({line.count(",") for line in complete}) == 1
                assert pd.read_csv(metrics, nrows=len(complete) - 1)[
                    "frames"
                ].is_monotonic_increasing
            assert frames > 0
            arguments = ["--resume", str(path)]
            if killed >= kills:
                break
        done = run(folder, "--resume", str(only_run(folder)))
        finished = "raise collector.total_frames" in done.stderr  # the kill came after the end
        assert done.returncode == 0 or finished, done.stderr
        assert_same_run(whole, only_run(folder))
        assert not [*only_run(folder).rglob("*.partial")]
