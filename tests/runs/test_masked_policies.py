"""Policies that choose among allowed actions: saved, acting from NumPy, and exported."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from tensordict import TensorDict

from rlkit_sac.envs import describe_task, make_env
from rlkit_sac.modules import (
    action_value_critic,
    categorical_actor,
)
from rlkit_sac.objectives import ACERLoss, DiscreteSACLoss
from rlkit_sac.runs import export_policy, load_policy, save_policy
from tests.envs import test_action_masks  # noqa: F401 (registers the task)
from tests.runs.policies import CELLS, discrete, hybrid

MEMORY: Any = {"kind": "gru", "size": 4, "num_actions": 6}
KINDS = {
    "boltzmann": lambda: discrete(3, num_actions=6),
    "memory": lambda: DiscreteSACLoss(action_value_critic(3, 6, **CELLS, memory=MEMORY)),
    "actor": lambda: discrete(3, num_actions=6, actor_network=categorical_actor(3, 6, **CELLS)),
    "ACER": lambda: ACERLoss(categorical_actor(3, 6, **CELLS), action_value_critic(3, 6, **CELLS)),
    "hybrid": lambda: hybrid(3, num_actions=6),
}


def saved(kind: str, folder: Path, **kwargs: str) -> Any:
    torch.manual_seed(0)
    kwargs["space"] = "hybrid" if kind == "hybrid" else "choices"
    loss = KINDS[kind]()
    loss.set_keys(action_mask="action_mask")
    env = make_env("Masked-v0", kwargs=kwargs)
    save_policy(folder, loss.policy(), task=describe_task(env))
    return load_policy(folder), gym.make("Masked-v0", **kwargs)


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_policy_acts_in_plain_gymnasium(tmp_path: Path, kind: str) -> None:
    policy, env = saved(kind, tmp_path)
    for deterministic in (True, False):
        (observation, info), state, over = env.reset(seed=0), None, False
        while not over:  # the task refuses what it does not allow
            options = {"action_mask": info["action_mask"], "deterministic": deterministic}
            action = policy.act(observation, state, **options)
            if kind == "memory":
                action, state = action
            observation, _, over, _, info = env.step(action)


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        *((kind, "torch") for kind in KINDS),
        *(pytest.param(k, "onnx", marks=[pytest.mark.slow] * (k != "memory")) for k in KINDS),
    ],
)
def test_an_exported_policy_takes_the_mask(tmp_path: Path, kind: str, form: Any) -> None:
    saved(kind, tmp_path)
    found = export_policy(tmp_path, tmp_path / "policy", format=form)  # compares several batches
    assert found["inputs"]["action_mask"] == "bool [N, 6]"


def test_many_masks_and_those_of_observations(tmp_path: Path) -> None:
    policy, env = saved("boltzmann", tmp_path, where="observation")
    observation, _ = env.reset(seed=1)
    one = policy.act(observation)
    both = policy.act({name: np.stack([value] * 2) for name, value in observation.items()})
    assert (both == one).all()
    plain, mask = {"observation": observation["observation"]}, observation["action_mask"]
    assert (policy.act(plain, action_mask=mask) == one).all()
    states = TensorDict(observation=torch.tensor(plain["observation"]))
    states["action_mask"] = torch.tensor(mask).bool()
    assert policy(states)["action"] == np.ravel_multi_index(tuple(one), (2, 3))
    forms = {
        "call act\\(observation, action_mask=": None,
        r"the shape \[5\], wanted \[6\]": mask[:5],
        "at least one allowed": np.zeros(6),
        r"\[2, 6\], wanted \[6\]": np.stack([mask, mask]),
    }
    for words, given in forms.items():
        with pytest.raises(ValueError, match=words):
            policy.act(plain, action_mask=given)
