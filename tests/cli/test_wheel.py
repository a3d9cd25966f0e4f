"""The wheel: it holds the recipes, and is all that the command needs."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.conftest import MY_TASKS, SHORT
from tests.cli.test_runs import rows
from tests.recipes.loading import RECIPES

pytest.importorskip("hatchling")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=RECIPES.parent, check=True, capture_output=True)
    (file,) = folder.glob("*.whl")
    return file


def test_it_holds_each_recipe_with_its_files(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    files = {
        f"rlkit_sac/recipes/{file.relative_to(RECIPES).as_posix()}"
        for pattern in ("*.py", "configs/*/*.yaml", "priors/*.py", "spaces/*.yaml")
        for file in RECIPES.glob(pattern)
    }
    files.add("rlkit_sac/recipes/evaluations.csv")
    assert files == {name for name in names if name.startswith("rlkit_sac/recipes/")}
    others = {"py.typed", "__main__.py", "analysis/report.html"}
    assert {f"rlkit_sac/{name}" for name in others} <= names


@pytest.mark.slow
def test_it_trains_several_seeds_resumes_and_evaluates_in_an_empty_folder(
    wheel: Path, tmp_path: Path
) -> None:
    """Unpacked, and found before the checkout: what pip does, but without a network."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    folder = tmp_path / "empty"
    folder.mkdir()
    (folder / "my_tasks.py").write_text(MY_TASKS)
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "installed"), "OMP_NUM_THREADS": "1"}

    def command(*arguments: str) -> str:
        line = [sys.executable, "-P", "-m", "rlkit_sac", *arguments]
        if sys.version_info < (3, 11):
            line.remove("-P")
        done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    options = [*SHORT, "--env.id", "my_tasks:Reach-v0", "--seeds", "0,1", "--jobs", "2"]
    command("train", "sac", "--config", "pendulum", *options)
    runs = sorted(folder.glob("runs/sac/my_tasks-Reach-v0/*-seed?"))
    assert len(runs) == 2
    info = json.loads((runs[1] / "run.json").read_text())
    assert Path(info["script"]) == tmp_path / "installed" / "rlkit_sac" / "recipes" / "sac.py"
    command("resume", str(runs[1]), "--collector.total_frames", "400")
    assert json.loads((runs[1] / "run.json").read_text())["frames"] == 400
    command("evaluate", str(runs[1]), "--csv", "episodes.csv")
    last = rows(runs[1] / "evaluations.csv")[-1]
    returns = [float(row["return"]) for row in rows(folder / "episodes.csv")]
    assert returns == json.loads(last["returns"])
    command("recipes", "copy", "kl_prior_sac", "--config", "pendulum_controller")
    prior = ["--config", "pendulum_controller", *SHORT]
    command("train", "kl_prior_sac.py", *prior)
