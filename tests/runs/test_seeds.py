import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from rlkit_sac.config import Seed
from rlkit_sac.config.run import SeedsConfig
from rlkit_sac.runs import launch, run_recipe
from rlkit_sac.runs.stop import resume_command
from tests.processes import Process
from tests.runs.scripted import TIMEOUT, copy_recipe, run, start, wait_for


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return copy_recipe(tmp_path)


def runs(recipe: Path) -> dict[int, Path]:
    """Run directories by seed."""
    files = recipe.parent.glob("runs/*/*/*/run.json")
    return {json.loads(file.read_text())["seed"]: file.parent for file in files}


def statuses(recipe: Path) -> dict[int, str]:
    return {
        seed: json.loads((path / "run.json").read_text())["status"]
        for seed, path in sorted(runs(recipe).items())
    }


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("0,1,2", [0, 1, 2]),
        ("0-4", [0, 1, 2, 3, 4]),
        ("7", [7]),
        ("9, 2-3", [9, 2, 3]),
    ],
)
def test_seeds_are_listed_or_ranges(text: str, seeds: list[int]) -> None:
    assert SeedsConfig(seeds=text).seed_list() == seeds


def test_seeds_and_jobs_are_options_like_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = []

    def run_seeds(config: Config, options: SeedsConfig, argv: list[str]) -> int:
        ran.append(options.seed_list())
        return 1

    monkeypatch.setattr(launch, "run_seeds", run_seeds)
    file = tmp_path / "seeds.yaml"
    file.write_text("seed: 3\nseeds: 0-1\njobs: 1\n")
    with pytest.raises(SystemExit) as stop:
        run_recipe(never, Config, ["--config", str(file)])
    assert (stop.value.code, ran) == (1, [[0, 1]])
    with pytest.raises(SystemExit):
        run_recipe(never, Config, ["--config", str(file), "--seeds=4,5"])
    assert ran == [[0, 1], [4, 5]]
    with pytest.raises(SystemExit):
        run_recipe(never, Config, ["--config", str(file), "--seed", "4", "--job", "2"])
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "error: --job: unknown option; did you mean --jobs?",
        f"error: {file}: seeds: give either --seed or --seeds",
    ]


@dataclass
class Config:
    """Seeds alone."""

    seed: Seed = 0
    """Seed."""
    resume: str | None = None
    """Run to resume."""


def never(config: Config) -> Path:
    raise AssertionError("nothing may run")


BAD = {
    "--seeds 1,1": "--seeds: 1 comes twice in '1,1'",
    "--seeds 0-3,2": "--seeds: 2 comes twice in '0-3,2'",
    "--seeds -1,2": "--seeds: expected seeds such as 0,1,2 or 0-4, got '-1,2'",
    "--seeds 0,": "--seeds: expected seeds such as 0,1,2 or 0-4, got '0,'",
    "--seeds 3-1": "--seeds: expected seeds such as 0,1,2 or 0-4, got '3-1'",
    "--seeds one": "--seeds: expected seeds such as 0,1,2 or 0-4, got 'one'",
    "--seeds": "--seeds: needs a value; write --seeds VALUE",
    "--seeds 0,1 --jobs 0": "--jobs: must be greater than or equal to 1, got 0",
    "--seeds 0,1 --jobs two": "--jobs: must be a valid integer, got 'two'",
    "--jobs 2": "--jobs: give the seeds too, for example --seeds 0,1,2",
    "--seeds 0,1 --seed 2": "--seeds: give either --seed or --seeds",
    "--seeds 0,1 --sead 2": "--sead: unknown option; did you mean --seed?",
}


@pytest.mark.parametrize(("options", "message"), BAD.items(), ids=BAD.keys())
def test_bad_options_are_one_line_and_nothing_runs(
    options: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        run_recipe(never, Config, options.split())
    assert stop.value.code == 2
    assert capsys.readouterr() == ("", f"error: {message}\n")


def assert_report(recipe: Path, seeds: str, printed: str, *finished: int) -> None:
    """Of the seeds that have finished, where others may have failed."""
    (folder,) = recipe.parent.glob(f"runs/test/Task/*-seeds{seeds}")
    assert (folder / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    (row,) = pd.read_csv(folder / "final_performance.csv").to_dict("records")
    assert (row["runs"], row["mean"]) == (len(finished), 1 + 10 * sum(finished) / len(finished))
    assert (folder / "final_performance.md").read_text().startswith("| task")
    table = pd.read_csv(folder / "seeds.csv")
    assert table["seed"].tolist() == list(finished)
    assert table["return_mean"].tolist() == [1.0 + 10 * seed for seed in finished]
    for name in ("seeds.csv", "final_performance.md", "learning_curve.png"):
        assert str(folder.relative_to(recipe.parent) / name) in printed


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_each_seed_has_its_run_and_all_have_a_report(recipe: Path, jobs: str) -> None:
    done = run(recipe, "--seeds", "2-3", "--jobs", jobs)
    assert (done.returncode, done.stderr) == (0, "")
    assert statuses(recipe) == {2: "finished", 3: "finished"}
    for seed, path in runs(recipe).items():
        assert f"seed: {seed}\n" in (path / "config.yaml").read_text()
        assert f"{path.relative_to(recipe.parent)}\n" in done.stdout
    assert_report(recipe, "2-3", done.stdout, 2, 3)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "4"])
def test_a_seed_that_fails_does_not_stop_the_others(recipe: Path, jobs: str) -> None:
    done = run(recipe, "--seeds", "0-2", "--jobs", jobs, "--fail", "{seed0: run, seed1: bug}")
    assert done.returncode == 1
    assert statuses(recipe) == {0: "failed", 1: "failed", 2: "finished"}
    assert done.stderr.splitlines()[-2:] == [
        "error: seed 0: reward is NaN at frame 10",
        "error: seed 1: ZeroDivisionError: oops",
    ]
    assert "Traceback" in done.stdout + done.stderr
    assert_report(recipe, "0-2", done.stdout, 2)


@pytest.mark.slow
def test_a_killed_process_is_a_failure_of_its_seed(recipe: Path) -> None:
    done = run(recipe, "--seeds", "0,1", "--jobs", "2", "--fail", "{seed0: killed}")
    assert done.returncode == 1
    assert statuses(recipe) == {0: "running", 1: "finished"}
    assert "error: seed 0: killed by SIGKILL" in done.stderr


@contextmanager
def waiting(recipe: Path, *argv: str, ready: int) -> Iterator[Process]:
    """A process in a session of its own, as in a terminal, once ``ready`` runs wait in it."""
    with start(recipe, recipe.parent, *argv) as process:
        wait_for(lambda: marked(recipe, "ready") == ready, process)
        yield process


def marked(recipe: Path, name: str) -> int:
    return len(list(recipe.parent.glob(f"runs/*/*/*/{name}")))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def pids(recipe: Path) -> list[int]:
    return [json.loads((path / "run.json").read_text())["pid"] for path in runs(recipe).values()]


WAIT = "{seed1: wait, seed2: wait, seed3: wait}"


@pytest.mark.parametrize(
    ("seeds", "jobs", "finished", "interrupted"),
    [
        pytest.param("0-3", "1", [0], [1], id="jobs1", marks=pytest.mark.slow),
        pytest.param("1-3", "2", [], [1, 2], id="jobs2", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    ("number", "code"),
    [pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow), (signal.SIGTERM, 143)],
)
def test_signals_let_all_running_seeds_save_and_start_no_more(
    recipe: Path,
    seeds: str,
    jobs: str,
    finished: list[int],
    interrupted: list[int],
    number: signal.Signals,
    code: int,
) -> None:
    argv, ready = ["--seeds", seeds, "--jobs", jobs, "--fail", WAIT], len(interrupted)
    with waiting(recipe, *argv, ready=ready) as process:
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # Ctrl-C reaches every process of the terminal
        else:
            os.kill(process.pid, number)
        wait_for(lambda: marked(recipe, "stopping") == ready, process)
        (recipe.parent / "may_save").touch()
        stdout, stderr = process.communicate(timeout=TIMEOUT)
    assert process.returncode == code, stderr
    assert statuses(recipe) == {
        **dict.fromkeys(finished, "finished"),
        **dict.fromkeys(interrupted, "interrupted"),
    }
    for seed in interrupted:
        path = runs(recipe)[seed]
        assert (path / "checkpoints" / "step_10").is_dir()
        place = path.relative_to(recipe.parent)
        assert (
            f"results so far: {place}\ncontinue with: {resume_command(place, recipe)}"
            in stdout + stderr
        )
        assert f"seed {seed}: interrupted" in stderr
    left = ", ".join(str(seed) for seed in range(4) if seed not in (0, *interrupted))
    assert stderr.endswith(f"not started: {left}\n")
    assert stderr.startswith("stopping ")
    assert (stdout + stderr).count("stopping") == 1
    assert "Traceback" not in stdout + stderr
    tables = recipe.parent.glob(f"runs/test/Task/*-seeds{seeds}/seeds.csv")
    reported = [pd.read_csv(table)["seed"].tolist() for table in tables]
    assert reported == ([finished] if finished else [])
    assert not any(map(alive, pids(recipe)))
