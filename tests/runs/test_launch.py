import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import rlkit_sac
from rlkit_sac.config import Check, EnvConfig, Seed
from rlkit_sac.errors import ConfigError
from rlkit_sac.runs import RunConfig
from rlkit_sac.runs.failures import resume_command
from rlkit_sac.runs.launch import read_config, run_recipe
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
from rlkit_sac.runs.tables.run_directory import RunDirectory


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


def test_success_writes_a_run_and_exits_with_zero(recipe: Path) -> None:
    done = run(recipe, "--seed", "5")
    assert (done.returncode, done.stderr) == (0, "")
    assert Path(done.stdout.strip(), "config.yaml").is_file()


def test_bad_options_exit_with_two_in_one_line_each_and_create_nothing(recipe: Path) -> None:
    (recipe.parent / "c.yaml").write_text("sead: 1\nenv: {num_envs: two}\n")
    done = run(recipe, "--config", str(recipe.parent / "c.yaml"), "--seed", "1.5", "--x", "1")
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("error: ") for line in lines)
    assert sorted(file.name for file in recipe.parent.iterdir()) == ["c.yaml", "recipe.py"]


def test_a_refusal_by_the_recipe_is_one_line_and_creates_nothing(recipe: Path) -> None:
    done = run(recipe, "--error", "config")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: device 'gpu' is not available here\n"
    assert not (recipe.parent / "runs").exists()


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


def test_an_exception_of_the_environment_is_shown_with_its_traceback(recipe: Path) -> None:
    done = run(recipe, "--error", "environment")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.splitlines()[-3:] == [
        "IndexError: pop from empty list",
        "error: Hopper-v5 failed in episode 3",
        f"results so far: {done.stdout.strip()}",
    ]
    assert done.stderr.count("Traceback") == 1


def test_a_bug_keeps_its_traceback(recipe: Path) -> None:
    done = run(recipe, "--error", "bug")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "ZeroDivisionError: oops\n" in done.stderr
    assert f"results so far: {done.stdout}" in done.stderr


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


def test_an_output_folder_that_cannot_be_made_exits_with_two(recipe: Path) -> None:
    (recipe.parent / "runs").write_text("a file")
    done = run(recipe)
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot create a run directory in")
    assert done.stderr.count("\n") == 1


def test_written_configuration_starts_the_same_run(recipe: Path) -> None:
    first = Path(run(recipe, "--seed", "5", "--env.kwargs.g", "1e-2").stdout.strip())
    again = Path(run(recipe, "--config", str(first / "config.yaml")).stdout.strip())
    assert first != again
    assert (first / "config.yaml").read_text() == (again / "config.yaml").read_text()


def test_an_interrupt_that_comes_out_as_another_error_is_still_one(capsys):
    def main(config):
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("a context manager failed on the way out")

    with pytest.raises(SystemExit) as stop:
        run_recipe(main, EnvConfig, [])
    assert stop.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


@dataclass
class TaskConfig:
    """Knows one task."""

    env: EnvConfig = field(default_factory=EnvConfig)
    seed: Seed = 0
    """Seed."""

    def checks(self) -> list[Check]:
        """One of the task."""
        return [Check(("env.id",), self.check_task)]

    def check_task(self) -> None:
        if self.env.id != "Pendulum-v1":
            raise ConfigError("no such task")


def never(config: object) -> Path:
    raise AssertionError("it runs all the same")


@pytest.mark.parametrize(
    ("argv", "lines"),
    [
        (["--seeds", "0,1,1"], ["--seeds: 1 comes twice in '0,1,1'"]),
        (["--jobs", "2"], ["--jobs: give the seeds too, for example --seeds 0,1,2"]),
        (["--seeds", "0,1", "--seed", "1"], ["--seeds: give either --seed or --seeds"]),
    ],
)
def test_errors_of_seeds_and_of_the_task_come_at_once(argv, lines, capsys):
    with pytest.raises(SystemExit) as stop:
        run_recipe(never, TaskConfig, [*argv, "--env.id", "Nope-v0"])
    assert stop.value.code == 2
    found = capsys.readouterr().err.splitlines()
    assert sorted(found) == sorted(f"error: {line}" for line in ["--env.id: no such task", *lines])


def test_a_run_to_resume_is_named_on_the_command_line_alone(tmp_path, capsys):
    file = tmp_path / "resume.yaml"
    file.write_text("seed: 3\nresume: runs/a\n")
    with pytest.raises(SystemExit) as stop:
        run_recipe(never, RunConfig, ["--config", str(file), "--device", "cpu"])
    assert stop.value.code == 2
    advice = "the run to resume is given on the command line, with --resume"
    assert capsys.readouterr().err == f"error: {file}: resume: {advice}\n"
    file.write_text("resume: null\nseed: 3\n")  # as in the config.yaml of every run
    assert read_config(RunConfig, ["--config", str(file)]).seed == 3
