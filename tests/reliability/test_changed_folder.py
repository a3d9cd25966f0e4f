"""An environment that changes the working directory leaves the files of a run where they are."""

from __future__ import annotations

import sys
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
    folders = set()

    def {method}(self, *args, **options):
        os.chdir("/")
        self.folders.add(os.getcwd())
        return super().{method}(*args, **options)

gymnasium.register("Wandering-v0", entry_point=Wandering, max_episode_steps=50)
"""


@pytest.mark.parametrize(
    "method",
    [
        "__init__",
        pytest.param("reset", marks=pytest.mark.slow),
        pytest.param("step", marks=pytest.mark.slow),
    ],
)
def test_all_files_are_in_the_run_directory(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wandering.py").write_text(MODULE.format(method=method))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "wandering", raising=False)
    recipe = load_recipe("sac")
    options = ["--env.id", "wandering:Wandering-v0", "--collector.total_frames", "240", *SHORT]
    run = tmp_path / recipe.main(
        read_config(recipe.SACConfig, [*options, "--logging.tensorboard", "true"])
    )
    assert sys.modules["wandering"].Wandering.folders == {"/"}
    assert Path.cwd() == tmp_path
    files = {file.name for file in run.rglob("*")}
    assert {"metrics.csv", "evaluations.csv", "run.json", "step_240", "learning_curve.png"} <= files
    assert {file.name for file in tmp_path.iterdir()} <= {"runs", "wandering.py", "__pycache__"}
    again = ["--resume", str(run.relative_to(tmp_path)), "--collector.total_frames", "300"]
    recipe.main(read_config(recipe.SACConfig, again))
    load_policy(run, which="best")
    assert (run / "checkpoints" / "step_300").exists()
