"""Recipes as they are, on batched environments of TorchRL."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import yaml

import rlkit_sac
from rlkit_sac.envs import make_env
from rlkit_sac.errors import ConfigError
from rlkit_sac.runs import evaluate, export_policy
from tests.envs.track import Track

QUICK: dict[str, Any] = {
    "env.max_episode_steps": 10,
    "collector.total_frames": 240,
    "evaluation.interval": 120,
    "evaluation.episodes": 3,
    "network.num_cells": [8],
    "logging.progress": False,
    "compile": False,
}
RATES = {f"update.lr_{name}": 3e-3 for name in ("actor", "qvalue", "alpha")}
LEARNED: dict[str, Any] = {
    **QUICK,
    **RATES,
    "env.max_episode_steps": 20,
    "collector.total_frames": 12_800,
    "collector.learning_starts": 5_120,
    "update.utd_ratio": 1 / 32,
    "loss.gamma": 0.9,
    "loss.alpha_init": 0.1,
    "network.num_cells": [64],
    "evaluation.interval": 5_120,
    "evaluation.episodes": 64,
}
LEARNING = {"collector.learning_starts": 160, "replay.batch_size": 32, "update.utd_ratio": 0.25}


@pytest.mark.parametrize(
    ("recipe", "action"),
    [
        ("sac", "box"),
        ("value_sac", "box"),
        ("kl_prior_sac", "box"),
        ("discrete_sac", "one-hots"),
        pytest.param("hybrid_sac", "both", marks=pytest.mark.slow),
        ("acer", "choice"),
        ("acer", "box"),
    ],
)
def test_a_batch_trains_resumes_evaluates_acts_and_is_exported(
    recipe: str, action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {**QUICK, **({} if recipe == "acer" else LEARNING)}
    options["env.kwargs"] = {"action": action, "num": 8}
    run = rlkit_sac.train(recipe, env=Track, seed=1, **options)
    stored = yaml.safe_load((run.path / "config.yaml").read_text())["env"]
    assert (stored["id"], stored["num_envs"]) == ("tests.envs.track:Track", 8)
    assert run.evaluations["frames"].max() >= 240
    rows = run.episodes
    assert set(rows["env"]) == set(range(8))
    assert rows["length"].max() == 10
    first = run.evaluations["frames"].max()
    run.resume(**{"collector.total_frames": first + 80})
    assert "TorchRL's environments begin new episodes" in capsys.readouterr().out
    assert run.metrics["updates"].is_monotonic_increasing
    policy = run.policy()
    result = run.evaluate(episodes=8, seed=5)
    env = make_env(Track, kwargs=options["env.kwargs"], max_episode_steps=10)
    again = evaluate(policy, env, episodes=8, seed=5)
    np.testing.assert_array_equal(result.returns, again.returns)
    seen = {"at": np.zeros((3, 2)), "lit": np.array([0, 1, 0]), "wind": np.zeros((3, 1))}
    act = policy.act(seen)
    leaf = act["action"]["force"] if action == "both" else act
    assert len(leaf) == 3
    format = "onnx" if action == "one-hots" else "torch"
    export_policy(run.path, run.path / "policy", format=format)


@pytest.mark.parametrize(
    ("recipe", "action"),
    [
        pytest.param("sac", "box", marks=pytest.mark.slow),
        pytest.param("discrete_sac", "choices", marks=pytest.mark.slow),
        ("hybrid_sac", "both"),
    ],
)
def test_a_batch_is_learned(recipe: str, action: str) -> None:
    options = {**LEARNED, "env.kwargs": {"action": action, "num": 64}}
    returns = rlkit_sac.train(recipe, env=Track, **options).evaluations["return_mean"]
    assert returns.iloc[-1] > -0.5 > returns.iloc[0] + 1


def test_the_configuration_for_batches_trains_any() -> None:
    few = {"env.kwargs": {"num": 64}, "replay.capacity": 1_000, "collector.learning_starts": 200}
    run = rlkit_sac.train("sac", env=Track, config="parallel", **QUICK, **few)
    assert run.metrics["updates"].max() > 0


def test_workers_are_refused_a_batch_that_the_function_chose() -> None:
    with pytest.raises(ConfigError, match="batch"):
        rlkit_sac.train("sac", env=Track, **QUICK, **LEARNING, **{"workers.number": 2})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_critics_that_see_what_the_policy_does_not_learn_in_fewer_frames(seed: int) -> None:
    options = {
        **LEARNED,
        # The wind of an episode, which no action changes, is most of the reward.
        "env.kwargs": {"num": 64, "storm": 10.0},
        "env.observation_keys": ["at"],
        "evaluation.kwargs": {"storm": 0.0},
    }
    begin = partial(rlkit_sac.train, "sac", env=Track, config="published", seed=seed, **options)
    without, seeing = (begin(**{"network.critic_keys": keys}) for keys in (None, ["at", "wind"]))
    late = [run.evaluations["return_mean"].iloc[-5:].mean() for run in (without, seeing)]
    assert late[1] > late[0] + 0.5
    assert seeing.policy().in_keys == ["observation"]
    assert np.isfinite(seeing.policy().act(np.zeros(2))).all()
