"""An entry that a wrapper makes of info is collected by both collectors, and read by a loss."""

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control import PendulumEnv
from gymnasium.envs.registration import EnvSpec

from rlkit_sac.data import example_transition, make_collector
from rlkit_sac.envs import gym_env, make_env
from rlkit_sac.envs.agent_env import AgentEnv
from rlkit_sac.errors import BatchError
from rlkit_sac.modules import state_action_critic, tanh_gaussian_actor
from rlkit_sac.objectives import ContinuousSACLoss
from tests.data.collect.kinds import KINDS, of_kind
from tests.data.collect.test_light_collector import assert_same


class Costly(PendulumEnv):
    def step(self, action: Any) -> Any:
        *outcome, _ = super().step(action)
        return *outcome, {"cost": abs(float(outcome[0][2]))}


class WithCost(AgentEnv):
    def __init__(self, env: Any, **options: Any) -> None:
        super().__init__(env, **options)
        self.observation_space["cost"] = gym.spaces.Box(0, np.inf, (1,))

    def agent_entries(self, observation: Any, info: dict[str, Any]) -> dict[str, Any]:
        cost = np.array([info.get("cost", 0.0)], np.float32)
        return {**super().agent_entries(observation, info), "cost": cost}


class CostlySACLoss(ContinuousSACLoss):
    @dataclass
    class _AcceptedKeys(ContinuousSACLoss._AcceptedKeys):
        cost: str = "cost"

    default_keys = _AcceptedKeys
    outcomes = (*ContinuousSACLoss.outcomes, "cost")


@pytest.mark.parametrize("num_envs", [1, 2])
def test_an_entry_of_info_is_collected_and_read(monkeypatch, num_envs: int) -> None:
    monkeypatch.setattr(gym_env, "AgentEnv", WithCost)
    found = []
    for kind in KINDS:
        spec = EnvSpec("Costly-v0", entry_point=Costly, max_episode_steps=7)
        env = of_kind(make_env(spec, seed=1, num_envs=num_envs), kind)
        torch.manual_seed(0)
        actor = tanh_gaussian_actor(3, [-1.0], [1.0], num_cells=[8])
        options = {"total_frames": 40, "frames_per_batch": 20}
        found.append(torch.cat(list(make_collector(env, actor, **options)), -1))
    assert_same(*found)
    data = found[0].reshape(-1)
    torch.testing.assert_close(data["next", "cost"], data["next", "observation"][:, 2:].abs())
    loss = CostlySACLoss(actor, state_action_critic(3, 1, num_cells=[8]))
    assert ("next", "cost") in loss.in_keys
    assert ("next", "cost") in example_transition(env, loss.in_keys).keys(True)
    loss(data)
    with pytest.raises(BatchError, match="cost"):
        loss(data.exclude(("next", "cost")))
