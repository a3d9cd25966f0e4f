"""TorchRL's side of environments: their wrapper, the previous action, and steps of plain arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDictBase
from torchrl.data import Categorical, Composite, TensorSpec, Unbounded
from torchrl.envs import EnvBase, GymWrapper, SerialEnv, Transform
from torchrl.envs.transforms import InitTracker, StepCounter, TransformedEnv

from rlkit_sac.envs.actions import AdaptedActions
from rlkit_sac.envs.observations import ArrayObservation, ArrayReward
from rlkit_sac.envs.seeding import EpisodeSeeding, NamedFaults

# The entries of a frame are those that the space of `ArrayObservation` declares,
#: what a step gives besides, under ``"next"`` alone,
OUTCOME = ("reward", "terminated", "truncated")
#: and what is counted over an episode, by its value at a reset.
COUNTED: dict[str, Any] = {"episode_reward": 0, "step_count": 0, "is_init": True}

Wrapper = TypeVar("Wrapper", bound="gym.Wrapper[Any, Any, Any, Any]")


class EpisodicGymWrapper(GymWrapper):
    """TorchRL's wrapper of an environment that :func:`~rlkit_sac.envs.make_env` made.

    >>> EpisodicGymWrapper(gym.make("Pendulum-v1")).gym_env().spec.id
    'Pendulum-v1'
    """

    def gym_env(self) -> gym.Env[Any, Any]:
        """Returns the environment inside, as this wrapper steps it."""
        return self._env


def base_env(env: EnvBase) -> EnvBase:
    """Returns the environment under all transforms."""
    while isinstance(env, TransformedEnv):
        env = env.base_env
    return env


def gym_envs(env: EnvBase) -> list[Any]:
    """Returns the Gymnasium environments in an environment, as they are stepped.

    Args:
        env: what :func:`~rlkit_sac.envs.make_env` returned; several environments are started if
            they are closed.

    >>> from rlkit_sac.envs import make_env
    >>> envs = gym_envs(make_env("Pendulum-v1", num_envs=2))
    >>> [each.get_wrapper_attr("max_torque") for each in envs]
    [2.0, 2.0]
    """
    base = base_env(env)
    if not isinstance(base, SerialEnv):
        return [base.gym_env()]
    if base.is_closed:
        base.start()
    return list(base.gym_env())


class EpisodeReturn(Transform):
    """Writes ``episode_reward`` [*, M], the sum of the task's own rewards in the episode so far.

    It is float64, but on MPS, which has no such numbers.

    >>> from rlkit_sac.envs import make_env
    >>> env = make_env("CartPole-v1")
    >>> env.rollout(3)["next", "episode_reward"].flatten()
    tensor([1., 2., 3.], dtype=torch.float64)
    """

    def __init__(self) -> None:
        super().__init__(in_keys=["reward"], out_keys=["episode_reward"])

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return self._reset(next_tensordict, next_tensordict)

    def _reset(
        self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase
    ) -> TensorDictBase:
        spec = self._spec
        sums = [each.get_wrapper_attr("episode_return") for each in gym_envs(self.parent)]
        values = np.stack(np.broadcast_arrays(*sums)).reshape(len(sums), -1)
        values = np.broadcast_to(values, (len(sums), spec.shape[-1])).reshape(spec.shape)
        return tensordict_reset.set(
            "episode_reward", torch.tensor(values, dtype=spec.dtype, device=spec.device)
        )

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Adds ``episode_reward``."""
        observation_spec["episode_reward"] = self._spec
        return observation_spec

    @property
    def _spec(self) -> TensorSpec:
        reward = self.parent.reward_spec
        dtype = torch.float32 if reward.device.type == "mps" else torch.float64
        return Unbounded(reward.shape, reward.device, dtype)


class PreviousAction(Transform):
    """Writes ``prev_action``, the action of the step before; zeros at the start of an episode.

    Zeros are index 0 for a discrete action: tell the two apart by ``is_init``.

    Keys: reads ``action``; writes ``prev_action`` of the same shape `[*, D]` or `[*]` and dtype,
    or of the same entries where the action is nested.

    >>> from torchrl.envs import GymEnv, TransformedEnv
    >>> env = TransformedEnv(GymEnv("Pendulum-v1"), PreviousAction())
    >>> rollout = env.rollout(3)
    >>> rollout["prev_action"][0]
    tensor([0.])
    >>> bool((rollout["prev_action"][1:] == rollout["action"][:-1]).all())
    True
    """

    def __init__(self) -> None:
        super().__init__(in_keys=["action"], out_keys=["prev_action"])

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict.set("prev_action", tensordict.get("action").clone())

    def _reset(
        self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase
    ) -> TensorDictBase:
        # Where only some environments are reset, TorchRL keeps the values of the others.
        return tensordict_reset.set("prev_action", self.parent.full_action_spec["action"].zero())

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Adds ``prev_action``, unbounded where continuous: zeros may lie outside the bounds."""
        observation_spec["prev_action"] = _unbounded(self.parent.full_action_spec["action"])
        return observation_spec


class GymnasiumEnvs:
    """Steps the environments of :func:`~rlkit_sac.envs.make_env` and writes into given arrays.

    Args:
        env: what :func:`~rlkit_sac.envs.make_env` returned.

    Attributes:
        observed: the entries of each environment's observation.

    >>> import numpy as np
    >>> from rlkit_sac.envs import make_env
    >>> envs = GymnasiumEnvs(make_env("Pendulum-v1"))
    >>> envs.reset(0)["observation"].shape
    (3,)
    >>> arrays = {"observation": np.zeros((1, 3)), "reward": np.zeros((1, 1))}
    >>> arrays |= {"terminated": np.zeros(1), "truncated": np.zeros(1)}
    >>> arrays["episode_reward"] = np.zeros((1, 1))
    >>> envs.step([np.zeros(1, np.float32)], arrays)
    []
    """

    def __init__(self, env: EnvBase) -> None:
        self._envs = [_DirectEnv(each) for each in gym_envs(env)]
        self.observed = self._envs[0].observed

    def __len__(self) -> int:
        """Number N of environments."""
        return len(self._envs)

    @staticmethod
    def can_step(env: EnvBase) -> bool:
        """Whether an environment is one of :func:`~rlkit_sac.envs.make_env`."""
        if not isinstance(env, TransformedEnv):
            return False
        expected = [InitTracker, StepCounter, EpisodeReturn, PreviousAction]
        if [type(each) for each in env.transform] != expected or env.transform[1].max_steps:
            return False
        return type(base_env(env)) in (EpisodicGymWrapper, SerialEnv)

    def reset(self, index: int) -> dict[str, NDArray[Any]]:
        """Begin an episode in one environment, or continue the one that was loaded.

        Returns:
            Its entries :attr:`observed`.
        """
        return self._envs[index].reset()

    def step(self, actions: Sequence[Any], arrays: Mapping[str, NDArray[Any]]) -> list[int]:
        """Step every environment.

        Args:
            actions: one for each environment, as its `AdaptedActions` takes it.
            arrays: the entries :attr:`observed`, :data:`OUTCOME` and ``episode_reward``,
                ``[N, …]``, to be written; flags are ``[N]``.

        Returns:
            The environments whose episode ended.
        """
        return [i for i, env in enumerate(self._envs) if env.step(actions[i], arrays, i)]


class _DirectEnv:
    """One environment of :func:`make_gym_env`, stepped without most of its wrappers' calls."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = wrapper_of(env, NamedFaults)
        self._seeded = wrapper_of(env, EpisodeSeeding)
        self._action = wrapper_of(env, AdaptedActions).action_conversion
        self._reward = wrapper_of(env, ArrayReward).reward
        observation = wrapper_of(env, ArrayObservation)
        self._entries = observation.entries
        self.observed = tuple(cast(gym.spaces.Dict, observation.observation_space))

    def reset(self) -> dict[str, NDArray[Any]]:
        """The entries `observed` at the beginning of an episode."""
        return self._env.reset()[0]

    def step(self, action: Any, arrays: Mapping[str, NDArray[Any]], index: int) -> bool:
        """Write `observed` and `OUTCOME` after a step at an index; whether the episode ended."""
        try:
            after, reward, terminated, truncated, info = self._seeded.step(self._action(action))
            for key, value in self._entries(after, info).items():
                arrays[key][index] = value
            arrays["reward"][index] = self._reward(reward)
            arrays["episode_reward"][index] = self._seeded.episode_return
            arrays["terminated"][index], arrays["truncated"][index] = terminated, truncated
            return terminated or truncated
        except (Exception, SystemExit) as error:
            self._env.raise_fault(error)


def wrapper_of(env: gym.Env[Any, Any], kind: type[Wrapper]) -> Wrapper:
    """Returns the outermost wrapper of a kind that an environment has.

    >>> wrapper_of(gym.make("Pendulum-v1"), gym.wrappers.TimeLimit)._max_episode_steps
    200
    """
    while not isinstance(env, kind):
        assert isinstance(env, gym.Wrapper), f"the environment has no {kind.__name__}"
        env = env.env
    return env


def _unbounded(spec: TensorSpec) -> TensorSpec:
    if isinstance(spec, Composite):
        parts = {name: _unbounded(part) for name, part in spec.items()}
        return Composite(parts, shape=spec.shape, device=spec.device)
    if isinstance(spec, Categorical):
        return spec.clone()
    return Unbounded(shape=spec.shape, device=spec.device, dtype=spec.dtype)
