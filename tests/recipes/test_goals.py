"""Tasks with goals in every recipe of soft actor-critic: relabeled goals, and success."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlkit_sac.analysis import final_performance, load_runs
from rlkit_sac.envs.agent_env import _read_success
from tests.recipes.running import DISCRETE, HYBRID, SAC, Recipe

TASK = ["--env.id", "tests.envs.goals:reach"]
REACH = [*TASK, "--replay.goals", "future"]


@pytest.mark.parametrize(
    ("recipe", "kind", "options"),
    [
        (SAC, "continuous", ["future", "--replay.prioritized", "true"]),
        (DISCRETE, "discrete", ["future", "--env.num_envs", "2"]),
        (HYBRID, "hybrid", ["episode", "--replay.storage", "memmap"]),
        (Recipe("kl_prior_sac"), "continuous", ["final", "--prior.kind", "same_action"]),
    ],
)
def test_a_run_learns_from_other_goals_and_knows_success(
    workplace: Path, recipe: Recipe, kind: str, options: list[str]
) -> None:
    kwargs = json.dumps({"actions": kind, "ends": kind != "hybrid"})
    run = recipe.train(*TASK, "--env.kwargs", kwargs, "--replay.goals", *options)
    episodes = load_runs(run, table="episodes")
    succeeded = episodes["success"].astype(str) == "true"
    assert (succeeded == (episodes["terminated"].astype(str) == "true")).all() or kind == "hybrid"
    evaluations = load_runs(run)
    assert evaluations["success_rate"].between(0, 1).all()
    table = final_performance(evaluations, column="success_rate")
    assert table["mean"].item() == evaluations["success_rate"].iloc[-1]


@pytest.mark.parametrize(
    ("info", "success"),
    [
        ({"is_success": np.float32(1)}, 1),
        ({"is_success": None, "success": np.array([False])}, 0),
        ({"success": np.array([True, True])}, -1),
        ({"is_success": "no"}, -1),
        ({"is_success": float("nan")}, -1),
        ({}, -1),
    ],
)
def test_success_is_one_number(info: dict[str, Any], success: int) -> None:
    assert _read_success(info) == success


def test_a_success_rate_ends_a_run(workplace: Path) -> None:
    run = SAC.train(*REACH, "--evaluation.stop_at_success", "0.01", "--evaluation.episodes", "20")
    (evaluation,) = load_runs(run).to_dict("records")
    assert evaluation["frames"] == 60
    assert evaluation["success_rate"] >= 0.01


def test_a_task_of_torchrl_needs_a_function_of_rewards(
    workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = ["--env.id", "tests.envs.goals:torchrl_reach", "--env.max_episode_steps", "9"]
    task += ["--replay.goals", "future"]
    function = ["--replay.reward_function", "tests.envs.goals:reward"]
    run = SAC.train(*task, *function, "--env.num_envs", "2", "--replay.her_ratio", "1.0")
    assert "success_rate" not in pd.read_csv(run / "evaluations.csv")
    SAC.assert_refused(capsys, workplace, " ".join(task), "replay.goals: the task has no compute_r")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--env.id Pendulum-v1", "replay.goals: observation needs the whole part 'achieved_goal'"),
        (
            "--env.observation_indices [0, 1, 2, 4, 5, 6]",
            "replay.goals: observation needs the whole part 'achieved_goal'",
        ),
        (
            "--network.critic_keys [observation, achieved_goal]",
            "replay.goals: critic_observation needs the whole part 'desired_goal'",
        ),
        ("--replay.n_steps 3", "replay.goals: is for single transitions"),
        ("--replay.slice_length 4", "replay.goals: is for single transitions"),
        ("--replay.reward_function absent:f", "replay.goals: no function is at absent:f"),
    ],
)
def test_options_that_do_not_fit_goals_are_refused(
    workplace: Path, capsys: pytest.CaptureFixture[str], options: str, message: str
) -> None:
    env = (
        "" if "--env.id" in options else "--env.id tests.envs.goals:reach --env.max_episode_steps 9"
    )
    SAC.assert_refused(capsys, workplace, f"{env} --replay.goals future {options}", message)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("reach_with_other_rewards", "'reward' of transition"),
        ("reach_with_info", "ReadsInfo.compute_reward raised KeyError"),
    ],
)
def test_a_reward_of_more_than_goals_ends_the_run(
    workplace: Path, capsys: pytest.CaptureFixture[str], function: str, message: str
) -> None:
    task = [f"tests.envs.goals:{function}" if "goals:" in word else word for word in REACH]
    code, error = SAC.stop(capsys, *SAC.short, *task)
    assert code == 1
    assert f"replay.goals: {message}" in error
