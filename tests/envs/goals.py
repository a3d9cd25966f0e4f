"""A small task with goals, as functions for ``env.id``."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from torch import Tensor
from torchrl.envs import GymWrapper

LIMIT = 9
NEAR = 0.4


class Reach(gym.Env[Any, Any]):
    """A point in a square moves towards a goal: reward 0 near the goal, else -1.

    Args:
        actions: "continuous", "discrete" or "hybrid".
        ends: if true, the episode terminates at the goal. Its rule takes one pair of goals.
    """

    def __init__(self, actions: str = "continuous", ends: bool = True) -> None:
        place = Box(-2.0, 2.0, (2,), np.float64)
        self.observation_space = Dict(
            observation=Box(-np.inf, np.inf, (3,), np.float64),
            achieved_goal=place,
            desired_goal=place,
        )
        move = Box(-1.0, 1.0, (2,), np.float32)
        spaces = {"continuous": move, "discrete": Discrete(4), "hybrid": Tuple([Discrete(2), move])}
        self.action_space = spaces[actions]
        self.actions, self.ends = actions, ends

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.goal = self.np_random.uniform(-1, 1, (2, 2))
        self.count = 0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        if self.actions == "discrete":
            action = [(1, 0), (-1, 0), (0, 1), (0, -1)][action]
        elif self.actions == "hybrid":
            action = np.asarray(action[1]) * (1 if action[0] else -1)
        self.place = np.clip(self.place + 0.3 * np.asarray(action), -2, 2)
        self.count += 1
        reward = float(self.compute_reward(self.place, self.goal, {"cost": 0.5}))
        terminated = self.compute_terminated(self.place, self.goal, {})
        return self._observe(), reward, terminated, False, {"is_success": np.float32(reward == 0)}

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -(np.linalg.norm(achieved - desired, axis=-1) > NEAR).astype(np.float64)

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> bool:
        return self.ends and bool(np.linalg.norm(achieved - desired) <= NEAR)

    def _observe(self) -> dict[str, Any]:
        speed = np.array([self.count, *self.place], np.float64)
        return {"observation": speed, "achieved_goal": self.place, "desired_goal": self.goal}


def reach(**options: Any) -> gym.Env[Any, Any]:
    return gym.wrappers.TimeLimit(Reach(**options), LIMIT)


def reach_with_other_rewards() -> gym.Env[Any, Any]:
    return gym.wrappers.TransformReward(reach(), lambda reward: 2 * reward)


class ReadsInfo(Reach):
    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return super().compute_reward(achieved, desired, info) - info["cost"]


def reach_with_info() -> gym.Env[Any, Any]:
    return gym.wrappers.TimeLimit(ReadsInfo(), LIMIT)


def reward(achieved: Tensor, desired: Tensor) -> Tensor:
    """Rewards of the task in tensors."""
    return -((achieved - desired).norm(dim=-1, keepdim=True) > NEAR).to(torch.float32)


def torchrl_reach() -> GymWrapper:
    """The same task as TorchRL wraps it, without Gymnasium's functions."""
    return GymWrapper(reach())
