import os
import signal
from pathlib import Path

import pytest

from rlkit_sac.runs.stop import resume_command
from tests.runs.scripted import copy_recipe, run, start


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return copy_recipe(tmp_path)


def test_bad_options_exit_with_two_in_one_line_each_and_create_nothing(recipe: Path) -> None:
    (recipe.parent / "c.yaml").write_text("sead: 1\nenv: {num_envs: two}\n")
    done = run(recipe, "--config", str(recipe.parent / "c.yaml"), "--seed", "1.5", "--x", "1")
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("error: ") for line in lines)
    assert sorted(file.name for file in recipe.parent.iterdir()) == ["c.yaml", "recipe.py"]


@pytest.mark.parametrize(
    ("error", "message"),
    [("run", "error: reward is NaN at frame 10"), ("batch", "error: no 'observation'")],
)
def test_known_errors_are_one_line_and_the_place_of_the_results(
    recipe: Path, error: str, message: str
) -> None:
    done = run(recipe, "--fault", error)
    assert done.returncode == 1
    assert done.stderr == f"{message}\nresults so far: {done.stdout}"


def test_a_failed_run_with_a_checkpoint_says_how_to_continue(recipe: Path) -> None:
    done = run(recipe, "--fault", "saved")
    path = done.stdout.strip()
    assert done.stderr.splitlines() == [
        "error: no space left on device",
        f"results so far: {path}",
        f"continue with: {resume_command(Path(path), recipe)}",
    ]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_close_the_run_and_exit_with_their_code(
    recipe: Path, number: signal.Signals, code: int
) -> None:
    with start(recipe, recipe.parent, "--fault", "block") as process:
        path = Path(process.readline().strip())
        os.kill(process.pid, number)
        _, stderr = process.communicate()
    assert (process.returncode, stderr) == (code, f"interrupted\nresults so far: {path}\n")
    assert '"status": "interrupted"' in (recipe.parent / path / "run.json").read_text()
