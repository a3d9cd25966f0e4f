"""An environment that changes the working directory leaves the files of a run where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlkit_sac.runs import load_policy, read_config
from tests.recipes.loading import load_recipe
from tests.reliability.runs import SHORT

MODULE = """
import os
import gymnasium
from gymnasium.envs.classic_control import PendulumEnv

class Wandering(PendulumEnv):
    def step(self, action):
        os.chdir("/")
        return super().step(action)

gymnasium.register("Wandering-v0", entry_point=Wandering, max_episode_steps=50)
"""


def test_all_files_are_in_the_run_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wandering.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe("sac")
    options = ["--env.id", "wandering:Wandering-v0", "--collector.total_frames", "240", *SHORT]
    run = recipe.main(read_config(recipe.SACConfig, [*options, "--logging.tensorboard", "true"]))
    assert Path.cwd() == Path("/")
    files = {file.name for file in (tmp_path / run).rglob("*")}
    assert {"metrics.csv", "evaluations.csv", "run.json", "step_240", "learning_curve.png"} <= files
    assert {file.name for file in tmp_path.iterdir()} <= {"runs", "wandering.py", "__pycache__"}
    assert f"results          {run}\n" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    load_policy(run, which="best")
