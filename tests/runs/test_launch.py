import os
import signal
import subprocess
from pathlib import Path

import pytest

import rlkit_sac
from rlkit_sac.runs.stop import resume_command
from tests import processes

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(rlkit_sac.__file__).parents[1])}
RECIPE = '''
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

from rlkit_sac.errors import BatchError, ConfigError, EnvironmentFault, RunError
from rlkit_sac.config import EnvConfig, LoggingConfig
from rlkit_sac.runs.launch import run_recipe
from rlkit_sac.runs.directory import RunDirectory


@dataclass
class Config:
    """Raise what it is told to."""

    env: EnvConfig = field(default_factory=EnvConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    seed: int = 0
    """Seed."""
    error: str = "none"
    """What to raise."""


def main(config: Config) -> Path:
    if config.error == "config":
        raise ConfigError("device 'gpu' is not available here")
    with RunDirectory.create(
        config, recipe="test", task=config.env.id, seed=config.seed, root=config.logging.dir
    ) as run:
        run.begin()
        print(run.path, flush=True)
        if config.error == "wait":
            sys.stdin.read()
        if config.error == "run":
            raise RunError("reward is NaN at frame 7")
        if config.error == "saved":
            (run.path / "checkpoints" / "step_7").mkdir(parents=True)
            (run.path / "checkpoints" / "step_7" / "checkpoint.json").touch()
            raise RunError("no space left on device")
        if config.error == "environment":
            try:
                [].pop()
            except IndexError as error:
                raise EnvironmentFault("Hopper-v5 failed in episode 3") from error
        if config.error == "batch":
            raise BatchError("no 'observation'")
        if config.error == "bug":
            raise ZeroDivisionError("oops")
    return run.path


if __name__ == "__main__":
    run_recipe(main, Config)
'''


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    file = tmp_path / "recipe.py"
    file.write_text(RECIPE)
    return file


def start(recipe: Path, *argv: str) -> processes.Process:
    folder = recipe.parent
    argv = ("--logging.dir", str(folder / "runs"), *argv)
    return processes.Process(recipe, *argv, cwd=folder, env=ENVIRONMENT)


def run(recipe: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return start(recipe, *argv).finish()


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
    [("run", "error: reward is NaN at frame 7"), ("batch", "error: no 'observation'")],
)
def test_known_errors_are_one_line_and_the_place_of_the_results(
    recipe: Path, error: str, message: str
) -> None:
    done = run(recipe, "--error", error)
    assert done.returncode == 1
    assert done.stderr == f"{message}\nresults so far: {done.stdout}"


def test_a_failed_run_with_a_checkpoint_says_how_to_continue(recipe: Path) -> None:
    done = run(recipe, "--error", "saved")
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
    with start(recipe, "--error", "wait") as process:
        path = Path(process.readline().strip())
        os.kill(process.pid, number)
        _, stderr = process.communicate()
    assert (process.returncode, stderr) == (code, f"interrupted\nresults so far: {path}\n")
    assert '"status": "interrupted"' in (path / "run.json").read_text()
