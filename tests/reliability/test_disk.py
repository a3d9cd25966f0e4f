"""Replay in files on a disk that is too small or fills up, and a table that disappears."""

import os
from pathlib import Path

import pytest

from tests import processes
from tests.reliability.runs import ENVIRONMENT, ROOT, SAC, SHORT, assert_same_run, only_run
from tests.small_disk import MOUNT, NOT_PERMITTED

FILES = [*SHORT, "--replay.storage", "memmap", "--collector.total_frames", "300"]
RECIPE = f"""
import runpy, sys
sys.argv[0] = {str(SAC)!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""
# A task that fills the temporary folder when its run has begun, if it is told to.
FILLER = """
import os
from pathlib import Path

import gymnasium as gym
from gymnasium.envs.classic_control import PendulumEnv
from tests.small_disk import fill


class Filler(PendulumEnv):
    def step(self, action):
        if os.environ["FILL"] and list(Path().glob("runs/*/*/*/run.json")):
            fill(os.environ["TMPDIR"])
        return super().step(action)


gym.register("Filler-v0", Filler, max_episode_steps=100)
"""


def run(folder: Path, before: str, *arguments: str, fill: str = "") -> tuple[int, str]:
    """Exit code and errors of the recipe with ``disk`` as its temporary folder."""
    (folder / "disk").mkdir(parents=True)
    (folder / "filler.py").write_text(FILLER)
    script = folder / "script.py"
    script.write_text(before + RECIPE)
    variables = {"TMPDIR": str(folder / "disk"), "FILL": fill, "PYTHONPATH": f"{folder}:{ROOT}"}
    environment = ENVIRONMENT | variables
    done = processes.run(script, *FILES, *arguments, cwd=folder, env=environment)
    if done.returncode == NOT_PERMITTED:
        pytest.skip(f"no disk of its own: {done.stderr}")
    return done.returncode, done.stderr


def small_disk(folder: Path, size: str) -> str:
    return MOUNT.format(path=str(folder / "disk"), size=size)


LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))"


@pytest.mark.parametrize("what", ["limit of a file", "disk"])
def test_less_space_than_replay_needs_refuses_the_run(tmp_path, what):
    before = LIMIT if what != "disk" else small_disk(tmp_path, "1m")
    code, errors = run(tmp_path, before, "--replay.capacity", "50000")
    assert code == 2
    assert "the files of a replay buffer of 50000 transitions cannot take their space" in errors
    assert errors.count("\n") == 1
    assert not (tmp_path / "runs").exists()
    assert not os.listdir(tmp_path / "disk")


@pytest.mark.slow
def test_a_disk_that_fills_up_below_replay_changes_nothing(tmp_path):
    paths = []
    for fill in ("", "yes"):
        folder = tmp_path / f"fill{fill}"
        code, errors = run(
            folder, small_disk(folder, "100k"), "--env.id", "filler:Filler-v0", fill=fill
        )
        assert code == 0, errors
        paths.append(only_run(folder))
    assert_same_run(*paths)
