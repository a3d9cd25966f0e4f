import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import rlkit_sac
from rlkit_sac.training.config import EnvConfig
from rlkit_sac.training.launch import run_recipe

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(rlkit_sac.__file__).parents[1])}
RECIPE = '''
import sys
from dataclasses import dataclass, field
from pathlib import Path

from rlkit_sac.errors import BatchError, ConfigError, RunError
from rlkit_sac.training.config import EnvConfig, LoggingConfig
from rlkit_sac.training.launch import run_recipe
from rlkit_sac.training.run_directory import RunDirectory


@dataclass
class Config:
    """Raise what it is told to."""

    env: EnvConfig = field(default_factory=EnvConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    seed: int = 0
    """Seed."""
    error: str = "none"
    """What to raise."""


def main(config: Config) -> None:
    if config.error == "config":
        raise ConfigError("device 'gpu' is not available here")
    with RunDirectory.create(
        config, recipe="test", task=config.env.id, seed=config.seed, root=config.logging.dir
    ) as run:
        print(run.path, flush=True)
        if config.error == "wait":
            sys.stdin.read()
        if config.error == "run":
            raise RunError("reward is NaN at frame 7")
        if config.error == "batch":
            raise BatchError("no 'observation'")
        if config.error == "bug":
            raise ZeroDivisionError("oops")


if __name__ == "__main__":
    run_recipe(main, Config)
'''


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    file = tmp_path / "recipe.py"
    file.write_text(RECIPE)
    return file


def command(recipe: Path, *argv: str) -> list[str]:
    return [sys.executable, str(recipe), "--logging.dir", str(recipe.parent / "runs"), *argv]


def run(recipe: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(recipe, *argv), capture_output=True, text=True, env=ENVIRONMENT)


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


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ("config", 2, "error: device 'gpu' is not available here\n"),
        ("run", 1, "error: reward is NaN at frame 7\n"),
        ("batch", 1, "error: no 'observation'\n"),
    ],
)
def test_known_errors_are_one_line(recipe: Path, error: str, code: int, message: str) -> None:
    done = run(recipe, "--error", error)
    assert (done.returncode, done.stderr) == (code, message)


def test_a_bug_keeps_its_traceback(recipe: Path) -> None:
    done = run(recipe, "--error", "bug")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("ZeroDivisionError: oops\n")


def test_ctrl_c_exits_with_130(recipe: Path) -> None:
    with subprocess.Popen(
        command(recipe, "--error", "wait"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        # Where the tests run in the background, the shell has them ignore Ctrl-C, and a child too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        os.kill(process.pid, signal.SIGINT)
        _, stderr = process.communicate()
    assert (process.returncode, stderr) == (130, "interrupted\n")
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
