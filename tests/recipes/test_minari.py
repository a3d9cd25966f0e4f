"""Data sets of Minari, written here by Minari, as prior data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import minari
import pytest
from minari.data_collector import EpisodeBuffer

from rlkit_sac.data import demonstrations
from rlkit_sac.envs import make_env
from rlkit_sac.envs.torchrl_env import gym_envs
from rlkit_sac.runs import read_prior_data
from tests.data.test_demonstrations import record, stacked
from tests.recipes.running import DISCRETE, SAC


def write_dataset(name: str, task: str) -> int:
    """Write recorded episodes with Minari, and return the number of their steps."""
    episodes, _, env = record(task, episodes=6)
    inside = gym_envs(env)[0]
    minari.create_dataset_from_buffers(
        name,
        [
            EpisodeBuffer(**{key: stacked(values) for key, values in episode.items()})
            for episode in episodes
        ],
        action_space=inside.act.space,
        observation_space=inside.observe.space,
    )
    return sum(len(episode["actions"]) for episode in episodes)


@pytest.mark.filterwarnings("ignore::UserWarning:minari")  # asks for authors and the like
@pytest.mark.parametrize(
    ("recipe", "task", "options"),
    [
        (SAC, "tests.envs.goals:reach", ["--replay.goals", "future"]),
        (
            SAC,
            "tests.envs.goals:reach",
            ["--replay.goals", "future", "--replay.prior_share", "0.5"],
        ),
        (DISCRETE, "CartPole-v1", []),
    ],
    ids=["goals", "a share", "discrete"],
)
def test_a_run_learns_from_a_data_set_of_minari(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, recipe: Any, task: str, options: list[str]
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(workplace / "minari"))
    steps = write_dataset("tests/recorded-v0", task)
    data = read_prior_data("minari:tests/recorded-v0", make_env(task))
    assert len(data) == steps
    episodes, _, env = record(task, episodes=6)
    expected = demonstrations(episodes, env)
    assert (data == expected).all()
    recipe.train("--env.id", task, "--replay.prior_data", "minari:tests/recorded-v0", *options)


def test_a_run_with_unfinished_prior_episodes_resumes_exactly(
    workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    episodes, _, env = record("tests.envs.goals:reach", episodes=4)
    for episode in episodes:
        episode["terminations"] = [False for _ in episode["rewards"]]
        episode["truncations"] = episode["terminations"]
    demonstrations(episodes, env).save("recorded")
    prior = ("--replay.prior_data", "recorded", "--replay.goals", "final")
    env_options = ("--env.id", "tests.envs.goals:reach", "--env.kwargs", '{"ends": false}')
    SAC.assert_resumes_exactly(capsys, 53, *env_options, *prior, capacity=1_000_000)


def test_a_data_set_that_is_not_there_is_refused(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(workplace))
    message = "replay.prior_data: minari:absent-v0 cannot be read"
    SAC.assert_refused(capsys, workplace, "--replay.prior_data minari:absent-v0", message)
