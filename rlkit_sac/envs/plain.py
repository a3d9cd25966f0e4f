"""The Gymnasium environments inside a TorchRL environment, stepped without TensorDicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torchrl.envs import EnvBase, SerialEnv
from torchrl.envs.transforms import InitTracker, RewardSum, StepCounter, TransformedEnv

from rlkit_sac.envs.asking import base_env
from rlkit_sac.envs.gym_wrapper import EpisodicGymWrapper
from rlkit_sac.envs.previous_action import PreviousAction


class PlainEnvs:
    """Steps environments side by side, into arrays whose first dimension is the environment.

    What is done to the arrays of :func:`~rlkit_sac.envs.make_env`'s TorchRL environment is done
    here: counting steps, summing rewards, marking first steps. Both step the same Gymnasium
    environments.

    Args:
        env: what :func:`~rlkit_sac.envs.make_env` returned, without processes of its own.

    Attributes:
        observation: ``[N, …]``, of the next step, after a reset where an episode has ended.
        episode_reward: float32 ``[N, M]``, sum of the episode's rewards before the next step.
        step_count: int64 ``[N, 1]``, frames of the episode before the next step.
        is_init: bool ``[N, 1]``, whether the next step is an episode's first.

    >>> from rlkit_sac.envs import make_env
    >>> envs = PlainEnvs(make_env("Pendulum-v1"))
    >>> envs.reset()
    >>> envs.step([np.zeros(1, np.float32)])["step_count"]
    array([[1]])
    """

    def __init__(self, env: EnvBase) -> None:
        self._envs = _gym_envs(env)
        space = self._envs[0].observation_space["observation"]  # type: ignore[index]
        reward = env.full_reward_spec_unbatched["reward"]
        count = len(self._envs)
        self.observation = np.zeros((count, *space.shape), space.dtype)
        self.episode_reward = np.zeros((count, *reward.shape), np.float32)
        self.step_count = np.zeros((count, 1), np.int64)
        self.is_init = np.ones((count, 1), np.bool_)

    def __len__(self) -> int:
        """Number N of environments."""
        return len(self._envs)

    @staticmethod
    def can_step(env: EnvBase) -> bool:
        """Whether an environment is one of :func:`~rlkit_sac.envs.make_env`, in this process."""
        if not isinstance(env, TransformedEnv):
            return False
        expected = [InitTracker, StepCounter, RewardSum, PreviousAction]
        base = base_env(env)
        if [type(each) for each in env.transform] != expected or env.transform[1].max_steps:
            return False
        return type(base) in (EpisodicGymWrapper, SerialEnv)

    def reset(self) -> None:
        """Begin an episode in every environment, or go on with those that were loaded."""
        self.observation = self.observation.copy()  # what was returned before stays as it is
        self.episode_reward = self.episode_reward.copy()
        self.step_count, self.is_init = self.step_count.copy(), self.is_init.copy()
        for index in range(len(self._envs)):
            self._reset(index)

    def step(self, actions: list[Any]) -> dict[str, NDArray[Any]]:
        """Step every environment, and reset those whose episode ends.

        Args:
            actions: one for each environment, as its `AdaptedActions` takes it.

        Returns:
            New arrays: ``observation`` (the last one where an episode ends), ``reward``,
            ``episode_reward``, ``step_count``, ``terminated``, ``truncated``, ``done``.
        """
        observation = np.empty_like(self.observation)
        reward = np.empty_like(self.episode_reward)
        terminated = np.empty_like(self.is_init)
        truncated = np.empty_like(self.is_init)
        for index, (env, action) in enumerate(zip(self._envs, actions, strict=True)):
            after, reward[index], terminated[index], truncated[index], _ = env.step(action)
            observation[index] = after["observation"]
        result = {
            "observation": observation,
            "reward": reward,
            "episode_reward": self.episode_reward + reward,
            "step_count": self.step_count + 1,
            "terminated": terminated,
            "truncated": truncated,
            "done": terminated | truncated,
        }
        self.observation = observation
        self.episode_reward = result["episode_reward"]
        self.step_count = result["step_count"]
        self.is_init = np.zeros_like(self.is_init)
        if result["done"].any():
            self.observation = observation.copy()
            self.episode_reward = self.episode_reward.copy()
            self.step_count = self.step_count.copy()
            for ended in result["done"].nonzero()[0].tolist():
                self._reset(ended)
        return result

    def state_dict(self) -> dict[str, Any]:
        """What is known of the next step; the episodes are saved apart."""
        names = ("observation", "episode_reward", "step_count", "is_init")
        return {name: torch.from_numpy(getattr(self, name).copy()) for name in names}

    def load_state_dict(self, state: Mapping[str, Any], *, kept: Sequence[bool]) -> None:
        """Go on from a state, after a reset.

        Args:
            state: what :meth:`state_dict` returned.
            kept: for each environment whether its episode goes on; otherwise its reset counts.
        """
        which = np.array(kept)
        for name, value in state.items():
            getattr(self, name)[which] = value.cpu().numpy()[which]

    def _reset(self, index: int) -> None:
        after, _ = self._envs[index].reset()
        self.observation[index] = after["observation"]
        self.episode_reward[index] = 0.0
        self.step_count[index] = 0
        self.is_init[index] = True


def _gym_envs(env: EnvBase) -> list[gym.Env[Any, Any]]:
    base = base_env(env)
    if isinstance(base, EpisodicGymWrapper):
        return [base.gym_env]
    assert isinstance(base, SerialEnv)
    if base.is_closed:
        base.start()
    return [each.gym_env for each in base._envs]
