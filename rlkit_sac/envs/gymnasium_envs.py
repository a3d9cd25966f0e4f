"""The Gymnasium environments inside a TorchRL environment, stepped without TensorDicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import gymnasium as gym
from numpy.typing import NDArray
from torchrl.envs import EnvBase, SerialEnv
from torchrl.envs.transforms import InitTracker, RewardSum, StepCounter, TransformedEnv

from rlkit_sac.envs.actions import AdaptedActions
from rlkit_sac.envs.call_each import base_env, call_each
from rlkit_sac.envs.faults import NamedFaults
from rlkit_sac.envs.gym_wrapper import EpisodicGymWrapper
from rlkit_sac.envs.observations import ArrayObservation
from rlkit_sac.envs.previous_action import PreviousAction
from rlkit_sac.envs.rewards import ArrayReward
from rlkit_sac.envs.seeding import EpisodeSeeding

Wrapper = TypeVar("Wrapper", bound="gym.Wrapper[Any, Any, Any, Any]")


class GymnasiumEnvs:
    """Steps the environments of :func:`~rlkit_sac.envs.make_env` and writes into given arrays.

    Args:
        env: what :func:`~rlkit_sac.envs.make_env` returned with ``parallel=False``.

    >>> import numpy as np
    >>> from rlkit_sac.envs import make_env
    >>> envs = GymnasiumEnvs(make_env("Pendulum-v1"))
    >>> envs.reset(0).shape
    (3,)
    >>> arrays = {"observation": np.zeros((1, 3)), "reward": np.zeros((1, 1))}
    >>> arrays |= {"terminated": np.zeros(1), "truncated": np.zeros(1)}
    >>> envs.step([np.zeros(1, np.float32)], **arrays)
    []
    """

    def __init__(self, env: EnvBase) -> None:
        self._envs = [_DirectEnv(each) for each in call_each(env, "gym_env")]

    def __len__(self) -> int:
        """Number N of environments."""
        return len(self._envs)

    @staticmethod
    def can_step(env: EnvBase) -> bool:
        """Whether an environment is one of :func:`~rlkit_sac.envs.make_env`, in this process."""
        if not isinstance(env, TransformedEnv):
            return False
        expected = [InitTracker, StepCounter, RewardSum, PreviousAction]
        if [type(each) for each in env.transform] != expected or env.transform[1].max_steps:
            return False
        return type(base_env(env)) in (EpisodicGymWrapper, SerialEnv)

    def reset(self, index: int) -> NDArray[Any]:
        """Begin an episode in one environment, or continue the one that was loaded.

        Returns:
            Its observation.
        """
        return self._envs[index].reset()

    def step(
        self,
        actions: Sequence[Any],
        *,
        observation: NDArray[Any],
        reward: NDArray[Any],
        terminated: NDArray[Any],
        truncated: NDArray[Any],
    ) -> list[int]:
        """Step every environment.

        Args:
            actions: one for each environment, as its `AdaptedActions` takes it.
            observation: ``[N, …]``, to be written.
            reward: ``[N, M]``, to be written.
            terminated: ``[N]``, to be written.
            truncated: ``[N]``, to be written.

        Returns:
            The environments whose episode ended.
        """
        ended = []
        for index, env in enumerate(self._envs):
            observation[index], reward[index], terminal, limit = env.step(actions[index])
            terminated[index], truncated[index] = terminal, limit
            if terminal or limit:
                ended.append(index)
        return ended


class _DirectEnv:
    """One environment of :func:`make_gym_env`, stepped without most of its wrappers' calls."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = _wrapper_of(env, NamedFaults)
        self._seeded = _wrapper_of(env, EpisodeSeeding)
        self._action = _wrapper_of(env, AdaptedActions).action
        self._reward = _wrapper_of(env, ArrayReward).reward
        self._observation = _wrapper_of(env, ArrayObservation).array

    def reset(self) -> NDArray[Any]:
        """The first observation of an episode."""
        observation: NDArray[Any] = self._env.reset()[0]["observation"]
        return observation

    def step(self, action: Any) -> tuple[NDArray[Any], NDArray[Any], bool, bool]:
        """Observation, reward, and whether the episode ended by itself or by a limit."""
        try:
            after, reward, terminated, truncated, _ = self._seeded.step(self._action(action))
            return self._observation(after), self._reward(reward), terminated, truncated
        except (Exception, SystemExit) as error:
            self._env.raise_fault(error)


def _wrapper_of(env: gym.Env[Any, Any], kind: type[Wrapper]) -> Wrapper:
    while not isinstance(env, kind):
        assert isinstance(env, gym.Wrapper), f"the environment has no {kind.__name__}"
        env = env.env
    return env
