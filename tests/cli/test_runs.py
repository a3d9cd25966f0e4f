"""Runs that the command begins, continues and evaluates, in this process."""

import csv
import json
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
    assert "step_120" in printed


def test_resume_continues_with_the_recipe_that_began_the_run(
    run: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, folder / "copy")
    assert main(["resume", "copy", "--collector.total_frames", "130"]) == 0
    info = json.loads((folder / "copy" / "run.json").read_text())
    assert (info["status"], info["frames"], info["resumed_at"]) == ("finished", 130, 120)


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
        (
            ["my_tasks:Picture-v0"],
            CONTINUOUS,
            [
                "uint8",
                "an image of 3 channels (last), 8 x 8, divided by 255; network.encoder small",
            ],
        ),
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


BOTH_PARTS = """
class Parts(TwoRewards):
    action_space = gym.spaces.Tuple([gym.spaces.Discrete(2), TwoRewards.action_space])

    def step(self, action):
        return super().step(action[1])


gym.register("Parts-v0", Parts, max_episode_steps=20)
"""


def test_check_env_begins_with_what_trains_a_task_and_says_how(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    (folder / "two_parts.py").write_text(MY_TASKS + BOTH_PARTS)
    assert main(["check-env", "two_parts:Parts-v0", "--env.kwargs.start", "0.5"]) == 0
    lines = capsys.readouterr().out.partition("\nrecipes\n")[2].splitlines()
    assert lines[0] == "hybrid_sac      trains it"
    assert (
        "train it: rlkit-sac train hybrid_sac --env.id two_parts:Parts-v0 --env.kwargs.start 0.5"
        in lines
    )
    assert any(
        line.startswith("acer            refuses it: this algorithm acts in") for line in lines
    )


def test_clone_saves_a_policy_that_a_run_has_as_its_prior(
    run: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = ["--env.id", "Pendulum-v1", "--env.max_episode_steps", "50"]
    options = ["--updates", "20", "--log_std_min", "-1"]
    assert main(["train", "clone", "--data", str(run), *task, *options]) == 0
    printed = capsys.readouterr().out
    assert "cloned: cloned from 120 transitions\nreturn -" in printed
    prior = ["--prior.kind", "policy", "--prior.run", "cloned"]
    assert main(["train", "kl_prior_sac", *SHORT, *prior]) == 0
    with pytest.raises(SystemExit, match="2"):
        main(["train", "clone", "--data", str(run), "--output", "o", "--env.id", "CartPole-v1"])
    assert (
        "the parts of the observation was [('', [3])], and is [('', [4])]"
        in capsys.readouterr().err
    )
