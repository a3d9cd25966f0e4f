"""Runs that the command begins, continues and evaluates, in this process."""

from __future__ import annotations

import csv
import json
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from rlkit_sac.cli import main
from rlkit_sac.cli.resume import recipe_script
from rlkit_sac.errors import ConfigError
from tests.cli.conftest import MY_TASKS, SHORT
from tests.recipes.loading import RECIPES


def rows(table: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(table.read_text().splitlines()))


def test_a_run_names_its_script(run: Path) -> None:
    info = json.loads((run / "run.json").read_text())
    assert (info["status"], info["frames"]) == ("finished", 300)
    assert Path(info["script"]) == RECIPES / "sac.py"


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


def test_evaluate_with_other_episodes_seed_and_samples(
    run: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def returns(*options: str) -> list[float]:
        assert main(["evaluate", str(run), "--csv", "a.csv", "--episodes", "2", *options]) == 0
        return [float(row["return"]) for row in rows(folder / "a.csv")]

    first = returns("--seed", "7")
    assert len(first) == 2
    assert returns("--seed", "7") == first
    assert returns("--seed", "8") != first
    assert returns("--seed", "7", "--stochastic") != first
    assert main(["evaluate", str(run / "checkpoints" / "step_300"), "--which", "best"]) == 0


def test_evaluate_samples_where_the_run_does(
    run: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the checkpoint is given by a link."""
    stochastic = ["--evaluation.deterministic", "false", "--logging.dir", "sampled"]
    assert main(["train", "sac", "--config", "pendulum", *SHORT, *stochastic]) == 0
    (sampled,) = folder.glob("sampled/sac/*/*")
    (folder / "link").symlink_to(sampled / "checkpoints" / "step_300")
    last = json.loads(rows(sampled / "evaluations.csv")[-1]["returns"])
    for path, mode, equal in (
        (sampled, [], True),
        ("link", [], True),
        (sampled, ["--deterministic"], False),
    ):
        assert main(["evaluate", str(path), "--csv", "a.csv", *mode]) == 0
        assert ([float(row["return"]) for row in rows(folder / "a.csv")] == last) is equal


def test_evaluate_without_the_extra_plots(
    run: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    assert main(["evaluate", str(run)]) == 0
    printed = capsys.readouterr().out
    assert "pip install 'rlkit_sac[plots]'" in printed
    assert "95 %" not in printed


def test_evaluate_without_a_policy_or_configuration(
    run: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "empty").mkdir()
    assert main(["evaluate", "empty"]) == 1
    assert "error: no policy to load" in capsys.readouterr().err
    shutil.copytree(run, folder / "copy")
    (folder / "copy" / "checkpoints" / "step_300" / "checkpoint.json").unlink()
    assert main(["evaluate", "copy"]) == 2
    assert "checkpoint.json" in capsys.readouterr().err
    (folder / "file").touch()
    assert main(["evaluate", str(run), "--csv", "file/a.csv"]) == 1
    assert "error: cannot write file/a.csv" in capsys.readouterr().err


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


def test_a_run_does_not_choose_what_is_run(tmp_path: Path) -> None:
    own = RECIPES / "sac.py"
    assert recipe_script({"script": str(own)}, "run") == own
    assert recipe_script({"script": str(tmp_path / "recipes" / "sac.py")}, "run") == own  # gone
    (tmp_path / "recipes").mkdir()
    shutil.copy(own, tmp_path / "recipes")
    for script in (tmp_path / "recipes" / "sac.py", tmp_path / "recipes" / "mine.py", Path("-c")):
        with pytest.raises(ConfigError, match=r"rlkit-sac train \S+ --resume run$"):
            recipe_script({"script": str(script)}, "run")


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
