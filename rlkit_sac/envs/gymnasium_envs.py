"""The Gymnasium environments inside a TorchRL environment, stepped without TensorDicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from numpy.typing import NDArray
from torchrl.envs import EnvBase, SerialEnv
from torchrl.envs.transforms import InitTracker, RewardSum, StepCounter, TransformedEnv

from rlkit_sac.envs.actions import AdaptedActions
from rlkit_sac.envs.call_each import base_env
from rlkit_sac.envs.faults import NamedFaults
from rlkit_sac.envs.gym_wrapper import EpisodicGymWrapper
from rlkit_sac.envs.observations import ArrayObservation
from rlkit_sac.envs.previous_action import PreviousAction
from rlkit_sac.envs.rewards import ArrayReward


class GymnasiumEnvs:
    """Steps the environments of :func:`~rlkit_sac.envs.make_env` side by side, into given arrays.

    Args:
        env: what :func:`~rlkit_sac.envs.make_env` returned, without processes of its own.

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
        self._envs = [_PlainEnv(each) for each in _gym_envs(env)]

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
        if type(base) is EpisodicGymWrapper:
            return type(base.gym_env) is NamedFaults
        return type(base) is SerialEnv

    def reset(self, index: int) -> NDArray[Any]:
        """Begin an episode in one environment, or go on with the one that was loaded.

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


class _PlainEnv:
    """One environment of :func:`make_gym_env`, without most of its wrappers' calls."""

    def __init__(self, env: NamedFaults) -> None:
        observations = cast(ArrayObservation, env.env)
        actions = cast(AdaptedActions, observations.env)
        rewards = cast(ArrayReward, actions.env)
        self._env = env
        self._seeded = rewards.env
        self._action, self._reward = actions.action, rewards.reward
        self._observation = observations.array

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
            self._env.name(error)


def _gym_envs(env: EnvBase) -> list[NamedFaults]:
    base = base_env(env)
    if isinstance(base, EpisodicGymWrapper):
        return [cast(NamedFaults, base.gym_env)]
    assert isinstance(base, SerialEnv)
    if base.is_closed:
        base.start()
    return [each.gym_env for each in base._envs]
