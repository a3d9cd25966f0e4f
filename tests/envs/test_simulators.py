"""Simulators that TorchRL wraps, each as far as its package is installed."""

from typing import Any

import numpy as np
import pytest
import torch

import rlkit_sac
from rlkit_sac.envs import make_env
from tests.recipes.running import QUICK

pytestmark = pytest.mark.slow

OPTIONS = QUICK | {
    "collector.total_frames": 200,
    "evaluation.interval": 100,
    "env.max_episode_steps": 20,
}


def trains_evaluates_and_resumes(env_id: str, **options: Any) -> None:
    run = rlkit_sac.train("sac", env=env_id, **{**OPTIONS, **options})
    assert np.isfinite(run.evaluations["return_mean"]).all()
    assert run.evaluate(episodes=1).lengths[0] <= 20
    run.resume(**{"collector.total_frames": 280})
    assert run.evaluations["frames"].iloc[-1] >= 280


def test_dm_control_keeps_the_last_observation_of_a_time_limit() -> None:
    pytest.importorskip("dm_control")
    task = {"env_name": "cheetah", "task_name": "run"}
    env = make_env("torchrl.envs:DMControlEnv", kwargs=task, max_episode_steps=20)
    frames = env.rollout(21, break_when_any_done=False)
    assert frames["next", "truncated"].nonzero()[0].tolist() == [19, 0]
    from dm_control import suite

    raw = suite.load("cheetah", "run")
    raw.reset()
    first = frames["observation"][0].double().numpy()
    with raw.physics.reset_context():
        raw.physics.data.qpos[1:] = first[:8]
        raw.physics.data.qvel[:] = first[8:]
    for action in frames["action"][:20].numpy():
        step = raw.step(action)
    wanted = np.concatenate([step.observation["position"], step.observation["velocity"]])
    np.testing.assert_allclose(frames["next", "observation"][19], wanted, rtol=0.02, atol=0.02)
    trains_evaluates_and_resumes("torchrl.envs:DMControlEnv", **{"env.kwargs": task})


def test_brax_has_the_last_observation_of_a_time_limit() -> None:
    pytest.importorskip("brax")
    task = {"env_name": "ant", "batch_size": [16]}
    env = make_env("torchrl.envs:BraxEnv", kwargs=task, max_episode_steps=5)
    frames = env.rollout(6, break_when_any_done=False)
    last = frames["next"][:, 4]
    assert last["done"].all()
    # The observation is a function of the state of the same step, which a reset would replace.
    state = frames["next", "state"][:, 4]
    positions = state["pipeline_state", "q"][:, 2:]
    assert torch.equal(last["observation"][:, : positions.shape[-1]], positions)
    assert not torch.equal(frames["observation"][:, 5], last["observation"])
    trains_evaluates_and_resumes(
        "torchrl.envs:BraxEnv",
        **{
            "env.kwargs": task,
            "evaluation.kwargs": {"batch_size": [1]},
            "update.utd_ratio": 0.125,
        },
    )


def test_vectors_of_gymnasium_run_in_processes() -> None:
    pytest.importorskip("mujoco")
    task: dict[str, Any] = {"id": "HalfCheetah-v5", "num_envs": 2, "vectorization_mode": "async"}
    task["vector_kwargs"] = {"autoreset_mode": "Disabled"}
    trains_evaluates_and_resumes("gymnasium:make_vec", **{"env.kwargs": task})
