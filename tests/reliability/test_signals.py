"""Signals: the step is finished, the state saved, nothing left running."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import yaml

from rlkit_sac.runs.stop import resume_command
from tests import processes
from tests.reliability.runs import (
    ENVIRONMENT,
    RECIPES,
    ROOT,
    SAC,
    SHORT,
    assert_same_run,
    newest,
    only_run,
    run,
    start,
    train,
)

HERE = Path(__file__).parent
NOTING = HERE / "noting_phases.py"
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


def processes_of_group(leader: int) -> list[str]:
    """Command lines of the living processes in a process group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) == leader and fields[0] != "Z":
                found.append((stat.parent / "cmdline").read_text())
    return found


def assert_all_ended(leader: int) -> None:
    until = time.monotonic() + 60  # what is just exiting may still be listed
    while processes_of_group(leader) and time.monotonic() < until:
        time.sleep(0.1)
    assert processes_of_group(leader) == []


def wait_for(there: Callable[[], object], process: processes.Process | subprocess.Popen) -> None:
    while process.poll() is None and not there():
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow),
        (signal.SIGHUP, 129),
    ],
    ids=["SIGINT", "SIGTERM", "SIGHUP"],
)
def test_a_signal_ends_the_run_after_its_step(tmp_path, number, code):
    options = [*SHORT, "--collector.total_frames", "400"]
    with start(tmp_path, *options) as process:
        while process.poll() is None and not list(tmp_path.glob("runs/*/*/*/metrics.csv")):
            time.sleep(0.01)
        os.killpg(process.pid, number)
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == code, stderr
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
    assert_all_ended(process.pid)
    total = ["--collector.total_frames", str(info["frames"] + 40)]
    done = run(tmp_path, "--resume", str(path), *total)
    assert done.returncode == 0, done.stderr
    assert_same_run(train(tmp_path / "whole", *options, *total), path)


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


def noting(folder: Path, recipe: str, *options: str) -> processes.Process:
    """A recipe that makes a file for each phase, in a folder with a cache of its own."""
    environment = ENVIRONMENT | {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    script = str(ROOT / "recipes" / f"{recipe}.py")
    return processes.Process(NOTING, script, *options, cwd=folder, env=environment)


# Every recipe, every signal, every moment.

MOMENTS = {
    "importing": [],
    "before learning": ["--checkpoint.interval", "10"],
    "compiling": ["--compile", "true"],
    "evaluating": ["--evaluation.interval", "50", "--evaluation.episodes", "5"],
    "saving": ["--checkpoint.interval", "40"],
    "processes of seeds": ["--seeds", "0,1", "--jobs", "2"],
}


@pytest.mark.slow
@pytest.mark.parametrize("number", list(CODES), ids=lambda number: number.name)
@pytest.mark.parametrize("moment", list(MOMENTS))
@pytest.mark.parametrize("recipe", list(RECIPES))
def test_any_signal_at_any_moment(tmp_path, recipe, moment, number):
    options = [*RECIPES[recipe], "--collector.total_frames", "100000", *MOMENTS[moment]]
    if moment == "importing":
        process = subprocess.Popen(
            [sys.executable, "-m", "rlkit_sac", "train", recipe, *options],
            cwd=tmp_path,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        time.sleep(0.5)
    else:
        process = noting(tmp_path, recipe, *options)
        if moment in ("compiling", "evaluating", "saving"):
            wait_for((tmp_path / moment).exists, process)
        else:
            table = "run.json" if moment == "before learning" else "episodes.csv"
            several = 2 if moment == "processes of seeds" else 1
            wait_for(lambda: len(list(tmp_path.glob(f"runs/*/*/*/{table}"))) == several, process)
    with process:
        os.killpg(process.pid, number)
        _, stderr = process.communicate(timeout=120)
    assert "Traceback" not in stderr
    assert_all_ended(process.pid)
    runs = [info.parent for info in tmp_path.glob("runs/*/*/*/run.json")]
    if moment == "importing":  # Python's own end, as no handler is there yet
        assert process.returncode in (CODES[number], -number), stderr
        assert runs == []
        return
    assert process.returncode == CODES[number], stderr
    for path in runs:
        info = json.loads((path / "run.json").read_text())
        if moment == "before learning" and info["status"] == "created":
            continue  # the signal came before the run was begun
        assert info["status"] == "interrupted"
        assert not Path(f"/proc/{info['pid']}").exists()  # that of a seed is in no group of ours
        for name in ("metrics", "episodes", "evaluations"):
            if (path / f"{name}.csv").exists():
                assert pd.read_csv(path / f"{name}.csv").notna().any(axis=None)
        if moment == "compiling":  # saved at the end of the step with the update before
            update = yaml.safe_load((path / "config.yaml").read_text())["update"]
            per_update = 10 if recipe == "acer" else round(1 / update["utd_ratio"])
            assert newest(path).frames == info["frames"] - per_update
            continue  # the next test resumes such runs
        if list(path.glob("checkpoints/step_*")):
            frames = newest(path).frames
            resume = ["--resume", str(path), "--collector.total_frames", str(frames + 20)]
            script = ROOT / "recipes" / f"{recipe}.py"
            done = processes.run(script, *resume, cwd=tmp_path, env=ENVIRONMENT)
            assert done.returncode == 0, done.stderr
        else:
            assert moment == "before learning", stderr


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["hybrid_sac", "acer"])
def test_a_run_ended_while_compiling_goes_on_as_if_it_had_not_been(tmp_path, recipe):
    options = [*RECIPES[recipe], "--checkpoint.interval", "100000", "--compile", "true"]
    total = ["--collector.total_frames", "130"]
    with noting(tmp_path, recipe, *options, *total) as process:
        wait_for((tmp_path / "compiling").exists, process)
        os.killpg(process.pid, signal.SIGTERM)
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 143
    assert stderr.splitlines()[0] == "interrupted while compiling; try --compile false"
    path = only_run(tmp_path)
    assert newest(path).frames > 0
    done = run(tmp_path, "--resume", str(path), recipe=recipe)
    assert done.returncode == 0, done.stderr
    assert "not exactly" not in done.stdout
    assert_same_run(train(tmp_path / "whole", *options, *total, recipe=recipe), path)


def test_a_second_signal_ends_an_environment_that_does_not_answer(tmp_path):
    task = ("--env.id", "tests.envs.faulty:Faulty-v0", "--env.max_episode_steps", "100")
    fault = ("--env.kwargs", "{how: hang, step: 40, once: hangs}")
    frames = ("--collector.total_frames", "400", "--evaluation.interval", "400")
    with start(tmp_path, *SHORT, *task, *fault, *frames) as process:
        wait_for((tmp_path / "hangs").exists, process)
        os.killpg(process.pid, signal.SIGINT)
        wait_for(lambda: "stopping" in process.stderr.read(), process)
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=20)
        assert process.returncode == 130
    path = only_run(tmp_path)
    assert json.loads((path / "run.json").read_text())["status"] == "interrupted"
    assert newest(path).frames == 100
    assert_all_ended(process.pid)
