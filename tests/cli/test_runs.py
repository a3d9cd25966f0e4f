"""Runs that the command begins, continues and evaluates, in this process."""

from __future__ import annotations

import csv
import json
import shlex
import shutil
from pathlib import Path

import pytest

from rlkit_sac.cli import main
from tests.cli.conftest import MY_TASKS, SHORT


def rows(table: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(table.read_text().splitlines()))


def test_evaluate_repeats_the_last_evaluation(
    run: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Same task, with its time limit, same seed, same number of episodes."""
    assert main(["evaluate", str(run), "--csv", "episodes.csv"]) == 0
    printed = capsys.readouterr().out
    last = rows(run / "evaluations.csv")[-1]
    episodes = rows(folder / "episodes.csv")
    assert [float(row["return"]) for row in episodes] == json.loads(last["returns"])
    assert [(row["episode"], row["length"]) for row in episodes] == [
        ("1", "50"),
        ("2", "50"),
        ("3", "50"),
    ]
    assert f"| return | {float(last['return_mean']):.4g} |" in printed
    assert "step_300" in printed


def test_resume_continues_with_the_recipe_that_began_the_run(
    run: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, folder / "copy")
    assert main(["resume", "copy", "--collector.total_frames", "310"]) == 0
    info = json.loads((folder / "copy" / "run.json").read_text())
    assert (info["status"], info["frames"], info["resumed_at"]) == ("finished", 310, 300)


def test_a_script_of_ones_own_is_named_to_resume_its_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A changed copy, of a task in the current folder; not the recipe that it was copied from."""
    (folder / "my_tasks.py").write_text(MY_TASKS)
    assert main(["recipes", "copy", "sac", "mine.py"]) == 0
    text = (folder / "mine.py").read_text()
    changed = text.replace("    run_recipe(main", '    print("my own script")\n    run_recipe(main')
    (folder / "mine.py").write_text(changed)
    task = ["--env.id", "my_tasks:TwoRewards-v0", "--env.kwargs.start", "1.5"]
    task += ["--loss.reward_weights", "[1.0, 0.5]"]
    assert main(["train", "mine.py", "--config", "pendulum", *SHORT, *task]) == 0
    (run,) = folder.glob("runs/sac/my_tasks-TwoRewards-v0/*")
    assert "my own script" in capsys.readouterr().out
    assert main(["resume", str(run)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    command = line.partition("to run that script: ")[2]
    assert command == f"rlkit-sac train {(folder / 'mine.py').resolve()} --resume {run}"
    assert main([*shlex.split(command)[1:], "--collector.total_frames", "400"]) == 0
    assert "my own script" in capsys.readouterr().out
    info = json.loads((run / "run.json").read_text())
    assert (info["status"], info["frames"], info["resumed_at"]) == ("finished", 400, 300)

    for number, frames in enumerate((300, 400), start=-2):  # before and after the weights change
        checkpoint = run / "checkpoints" / f"step_{frames}"
        assert main(["evaluate", str(checkpoint), "--csv", "a.csv"]) == 0
        episodes = rows(folder / "a.csv")
        evaluation = rows(run / "evaluations.csv")[number]
        assert [float(row["return"]) for row in episodes] == json.loads(evaluation["returns"])
        assert {"return_0", "return_1"} <= episodes[0].keys()


CONTINUOUS = ["acer", "kl_prior_sac", "sac", "value_sac"]


@pytest.mark.parametrize(
    ("argv", "fits", "shown"),
    [
        (["Pendulum-v1"], CONTINUOUS, ["Box(-2.0, 2.0, (1,), float32)", "200 frames"]),
        (
            ["Pendulum-v1", "--env.observation_indices", "[1, 0]"],
            CONTINUOUS,
            ["sees Box(-1.0, 1.0, (2"],
        ),
        (["CartPole-v1"], ["acer", "discrete_sac"], ["Discrete(2)", "500 frames"]),
        (["Platform-v0"], ["hybrid_sac"], ["Tuple(Discrete(3),", "0: [0], 1: [1], 2: [2]"]),
        (["my_tasks:Reach-v0"], CONTINUOUS, ["10000 frames"]),
        (["my_tasks:Reach-v0", "--env.max_episode_steps", "7"], CONTINUOUS, ["7 frames"]),
        (["my_tasks:Picture-v0"], [], ["uint8", "the observation has the shape [8, 8, 3]"]),
    ],
    ids=" ".join,
)
def test_check_env_shows_the_spaces_and_the_recipes_that_fit(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    fits: list[str],
    shown: list[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    (folder / "my_tasks.py").write_text(MY_TASKS)
    assert main(["check-env", *argv]) == (0 if fits else 1)
    printed = " ".join(capsys.readouterr().out.split())
    for name in ("acer", "discrete_sac", "hybrid_sac", "kl_prior_sac", "sac", "value_sac"):
        assert f" {name} {'trains' if name in fits else 'refuses'} it" in printed
    for text in shown:
        assert text in printed
