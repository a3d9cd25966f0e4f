"""A run that stops and goes on is the run that never stopped, to the last bit."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from tests.reliability.runs import RECIPES, SHORT, assert_same_run, newest, only_run, run, train


@pytest.mark.parametrize(
    ("half", "options"),
    [
        (80, ["--env.id", "Pendulum-v1", "--env.max_episode_steps", "40"]),  # an episode's end
        (
            93,  # in the middle of one
            [
                *("--env.id", "Pendulum-v1", "--replay.prioritized", "true"),
                *("--update.order", "[qvalue, actor, alpha, target]"),
                *("--network.critic_atoms", "11", "--normalization.rewards", "bounded"),
                *("--replay.n_steps", "3"),  # two frames wait for later ones
            ],
        ),
        (
            90,
            [
                *("--env.id", "Hopper-v5", "--env.num_envs", "2", "--network.critic_dropout"),
                *("0.1", "--normalization.observations", "true", "--normalization.rewards", "true"),
                *("--collector.frames_per_batch", "6", "--replay.storage", "memmap"),
                *("--replay.slice_length", "3", "--loss.lmbda", "0.7"),
            ],
        ),
        (
            91,
            [
                *("--env.id", "tests.envs.goals:reach", "--replay.goals", "future"),
                *("--replay.prioritized", "true", "--env.num_envs", "7"),
            ],
        ),
        pytest.param(87, ["--env.id", "HalfCheetah-v5"], marks=pytest.mark.slow),
        pytest.param(90, ["--env.id", "Pendulum-v1", "--compile", "true"], marks=pytest.mark.slow),
    ],
    ids=[
        "episode boundary",
        "priorities, order, three steps",
        "two environments, statistics, slices",
        "goals, seven environments",
        "mujoco",
        "compiled",
    ],
)
def test_half_the_frames_and_then_the_rest_equal_all_at_once(tmp_path, half, options):
    options = [*SHORT, "--evaluation.interval", "70", "--replay.capacity", "120", *options]
    options += ["--seed", "3"]
    total = ["--collector.total_frames", str(2 * half)]
    whole = train(tmp_path / "whole", *options, *total)
    parts = train(tmp_path / "parts", *options, "--collector.total_frames", str(half))
    assert newest(parts).frames == half
    done = run(tmp_path, "--resume", str(parts), *total)  # in a new process
    assert done.returncode == 0, done.stderr
    assert f"at frame {half}" in done.stdout
    assert "not exactly" not in done.stdout
    assert only_run(tmp_path / "parts") == parts
    assert_same_run(whole, parts, capacity=120)
    info = json.loads((parts / "run.json").read_text())
    assert (info["status"], info["frames"], info["exact"]) == ("finished", 2 * half, True)
    assert [session["frames"] for session in info["sessions"]] == [half]


@pytest.mark.slow  # each compiles three times
@pytest.mark.parametrize("name", RECIPES)
def test_a_compiled_update_of_each_recipe_goes_on_in_a_new_process(tmp_path, name):
    """Both processes compile for themselves, and the second from the first update on."""
    options = [*RECIPES[name], "--compile", "true", "--seed", "3"]
    half, total = (("--collector.total_frames", frames) for frames in ("90", "180"))
    whole = train(tmp_path / "whole", *options, *total, recipe=name)
    parts = train(tmp_path / "parts", *options, *half, recipe=name)
    done = run(tmp_path, "--resume", str(parts), *total, recipe=name)
    assert done.returncode == 0, done.stderr
    assert "not exactly" not in done.stdout
    info = json.loads((parts / "run.json").read_text())
    assert (info["status"], info["frames"], info["compile_from"]) == ("finished", 180, 1)
    assert pd.read_csv(whole / "metrics.csv")["updates"].iloc[-1] > 40
    assert_same_run(whole, parts)
