"""Every recipe with workers on Ray: the numbers of one process, resume, deaths, signals."""

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from rlkit_sac.data.workers.cluster import ray_cluster
from rlkit_sac.runs import load_policy
from tests import (
    image_tasks,  # noqa: F401 (registers the task)
    processes,
)
from tests.recipes.loading import RECIPES as FOLDER
from tests.recipes.loading import run_recipe
from tests.reliability.runs import ENVIRONMENT, RECIPES, newest, only_run, table

ray = pytest.importorskip("ray")
psutil = pytest.importorskip("psutil")  # which Ray brings
slow = pytest.mark.slow
WORKERS = ["--workers.number", "2", "--workers.cpus", "0.5"]
ASYNC = [*WORKERS, "--workers.mode", "async", "--config", "published"]
ROWS = "--replay.slice_length 6 --replay.burn_in 2 --replay.store_state true --replay.batch_size 4"
GRU = ["--network.memory", "gru", *ROWS.split()]
STACKS = ["--env.id", "tests/Dot-v0", "--env.frame_stack", "3", "--network.encoder_features", "8"]
NORMALIZED = ["--normalization.observations", "true", "--normalization.rewards", "true"]
ACER_GRU = ["--network.memory", "gru", "--replay.burn_in", "2", "--replay.store_state", "true"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Ray in this process, for all runs of this module."""
    os.environ["PYTHONPATH"] = ENVIRONMENT["PYTHONPATH"]
    with ray_cluster(workers=0):
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(recipe: str, *arguments: str) -> Path:
    """The directory of a run of some hundred frames."""
    return run_recipe(recipe, *RECIPES[recipe], *arguments).resolve()


def frames(number: int, num_envs: int = 1) -> list[str]:
    """Options of runs whose batches have several frames of each environment."""
    return ["--collector.total_frames", str(number), "--env.num_envs", str(num_envs)]


def assert_same_tables(first: Path, second: Path) -> None:
    """Equal to the last digit, but for times."""
    for name in ("metrics", "evaluations", "episodes"):
        there = [(run / f"{name}.csv").exists() for run in (first, second)]
        assert there[0] == there[1]
        assert not there[0] or table(first, name) == table(second, name), name


def assert_uninterrupted(recipe: str, *options: str) -> None:
    """Two workers, stopped in the middle of episodes and resumed, are one process."""
    alone = train(recipe, *options, *frames(240, 4 if recipe == "acer" else 2))
    parts = train(recipe, *options, *WORKERS, *frames(120, 2 if recipe == "acer" else 1))
    total = ("--collector.total_frames", "240", "--workers.patience", "100")
    run_recipe(recipe, "--resume", str(parts), *total)
    assert_same_tables(alone, parts)
    assert json.loads((parts / "run.json").read_text())["exact"]


@slow  # tests/data/workers/test_collector.py has a quick one
@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        ("sac", ["--collector.frames_per_batch", "20"]),
        ("sac", STACKS),
        ("sac", [*GRU, "--collector.frames_per_batch", "12"]),
        ("sac", NORMALIZED),
        ("sac", ["--env.id", "tests.envs.goals:reach", "--replay.goals", "future"]),
        ("discrete_sac", []),
        ("discrete_sac", [*GRU, "--collector.frames_per_batch", "12"]),
        ("hybrid_sac", []),
        ("hybrid_sac", [*GRU, "--collector.frames_per_batch", "12"]),
        ("kl_prior_sac", []),
        ("kl_prior_sac", [*GRU, "--collector.frames_per_batch", "12"]),
        ("value_sac", []),
        ("value_sac", [*GRU, "--collector.frames_per_batch", "12"]),
        ("acer", []),
        ("acer", ACER_GRU),
        ("acer", NORMALIZED),
        ("acer", ["--env.id", "Pendulum-v1", "--collector.init_random_frames", "60"]),
    ],
)
def test_every_recipe_has_the_numbers_of_one_process(
    cluster: None, folder: Path, recipe: str, options: list[str]
) -> None:
    assert_uninterrupted(recipe, *options)


@slow
def test_asynchronous_workers_resume(
    cluster: None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--normalization.rewards", "false", "--workers.mode", "async")
    run = train("acer", *WORKERS, *options, *frames(240, 2))
    run_recipe("acer", "--resume", str(run), "--collector.total_frames", "280")
    assert "not exactly the run that never stopped: " in capsys.readouterr().out
    assert newest(run).frames == 280
    assert not json.loads((run / "run.json").read_text())["exact"]


def marked(mark: str) -> dict[int, str]:
    """The processes that have inherited an environment variable, and their command lines."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it is somebody else's, or has ended meanwhile
            if mark.encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
    return found


def assert_nothing_left(mark: str, *, seconds: float) -> None:
    until = time.monotonic() + seconds
    while marked(mark) and time.monotonic() < until:
        time.sleep(0.2)
    assert marked(mark) == {}


def start(folder: Path, mark: str, *arguments: str) -> processes.Process:
    """An endless run as a process with a Ray of its own, once it has made updates."""
    options = [*RECIPES["sac"], "--collector.frames_per_batch", "10"]
    options += ["--collector.total_frames", "1000000", "--checkpoint.interval", "100", *arguments]
    environment = ENVIRONMENT | {"RLKIT_TEST": mark}
    process = processes.Process(FOLDER / "sac.py", *options, cwd=folder, env=environment)
    while process.poll() is None and not list(folder.glob("runs/*/*/*/checkpoints/step_*")):
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()
    return process


@pytest.mark.parametrize(
    ("number", "code", "options"),
    [
        pytest.param(signal.SIGTERM, 143, [*ASYNC, "--workers.number", "1"], marks=slow),
        pytest.param(signal.SIGINT, 130, WORKERS, marks=slow),
        pytest.param(signal.SIGHUP, 129, ASYNC, marks=slow),
    ],
)
def test_a_signal_to_all_processes_saves_and_ends_them(
    tmp_path: Path, number: int, code: int, options: list[str]
) -> None:
    mark = f"{tmp_path}-{number}"
    with start(tmp_path, mark, *options) as process:
        os.killpg(process.pid, number)
        output, errors = process.communicate()
    assert process.returncode == code, errors
    run = only_run(tmp_path)
    assert errors.count("\n") == 4, errors
    assert "continue with: " in errors
    assert "ray" not in output.lower() + errors.lower(), output + errors
    metrics = pd.read_csv(run / "metrics.csv")
    assert metrics["frames"].iloc[-1] <= newest(run).frames
    assert metrics["updates"].iloc[-1] > 0
    assert load_policy(run)
    assert_nothing_left(mark, seconds=30)


@pytest.mark.slow
def test_nothing_is_left_of_a_run_that_was_killed(tmp_path: Path) -> None:
    with start(tmp_path, str(tmp_path), *WORKERS) as process:
        left = psutil.Process(process.pid).children(recursive=True)
        workers = [each for each in left if "_Actor" in each.name()]
        process.kill()
    assert len(workers) == 2
    assert not psutil.wait_procs(workers, timeout=30)[1]
    assert not psutil.wait_procs(left, timeout=90)[1]  # Ray's agents try for a minute to report it


def kill_worker(mark: str) -> None:
    """End the process of one worker, as a system does that runs out of memory."""
    pids = [pid for pid, command in marked(mark).items() if "ray::_Actor" in command]
    os.kill(min(pids), signal.SIGKILL)


@slow
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_run_goes_on_after_a_worker_has_died(tmp_path: Path, mode: str) -> None:
    slices = ["--replay.slice_length", "3", "--loss.lmbda", "0.9", "--replay.capacity", "100000"]
    slices += ["--config", "published"]
    with start(tmp_path, str(tmp_path), *WORKERS, "--workers.mode", mode, *slices) as process:
        kill_worker(str(tmp_path))
        run = only_run(tmp_path)
        until = newest(run).frames + 500
        while process.poll() is None and newest(run).frames < until:
            time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate()
    assert process.returncode == 130, errors
    assert output.count("\n") <= 2, output
    assert re.search(r"^warning: worker \d+ \(.*\) died", errors, re.MULTILINE), errors
    # The frames of the next episode do not follow; asynchronous slices lie in one batch anyway.
    cuts = newest(run).state()["sampler"]["cuts"]
    assert bool(cuts) == (mode == "sync")
    assert_nothing_left(str(tmp_path), seconds=30)
