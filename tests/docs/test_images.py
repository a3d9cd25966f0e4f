"""docs/images.md in small: the recipe of its changes is saved, resumed, evaluated and loaded."""

from __future__ import annotations

import importlib
import shlex
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch

from rlkit_sac.envs import make_env
from rlkit_sac.runs import evaluate, evaluation_seed, load_policy, read_config
from tests.docs.pages import ROOT, blocks
from tests.docs.session import Session
from tests.reliability.runs import assert_same_run

OPTIONS = shlex.split("""
    --env.id my_images:PendulumImages-v0 --env.max_episode_steps 25
    --collector.init_random_frames 30 --collector.learning_starts 30
    --replay.capacity 100 --replay.batch_size 4 --evaluation.episodes 1 --evaluation.interval 20
    --logging.progress false --compile false
""")


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    session = Session(tmp_path, monkeypatch)
    for block in blocks(ROOT / "docs" / "images.md"):
        if block.file or block.language == "diff":
            session.follow(block)
    yield importlib.import_module("my_images_sac")
    for name in ("my_images", "my_images_sac", "my_networks"):
        sys.modules.pop(name, None)


def train(recipe, folder: str, frames: int, *options: str) -> Path:
    arguments = [*OPTIONS, "--collector.total_frames", str(frames), "--logging.dir", folder]
    return recipe.main(read_config(recipe.SACConfig, [*arguments, *options]))


def test_a_recipe_of_images_is_resumed_evaluated_and_loaded(recipe) -> None:
    run = train(recipe, "runs", 40)
    resumed = ["--resume", str(run), "--collector.total_frames", "45"]
    assert recipe.main(read_config(recipe.SACConfig, resumed)) == run
    assert_same_run(train(recipe, "whole", 45), run, capacity=100)

    stored = safetensors.torch.load_file(next(run.glob("replay/*.safetensors")))
    images = [value for value in stored.values() if value.shape[1:] == (3, 32, 32)]
    assert [value.dtype for value in images] == [torch.uint8] * 2
    assert all(set(value.unique().tolist()) == {0, 255} for value in images)

    policy = load_policy(run, into=recipe.make_actor([-1.0], [1.0]))
    env = make_env("my_images:PendulumImages-v0", max_episode_steps=25)
    returns = evaluate(policy, env, episodes=1, seed=evaluation_seed(0)).returns
    assert returns.mean() == pd.read_csv(run / "evaluations.csv")["return_mean"].iloc[-1]

    task = gym.make("PendulumImages-v0")
    first, _ = task.reset(seed=0)
    action = policy.act(first)
    assert (first.dtype, action.shape) == (np.uint8, (1,))
    assert -2 <= action <= 2
    assert np.allclose(policy.act(np.stack([first, first])), np.stack([action, action]))
    assert not np.array_equal(policy.act(first.swapaxes(1, 2)), action)
