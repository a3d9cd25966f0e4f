"""TorchRL's side of environments: their wrapper, their episodes, and the previous action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensordict import TensorDictBase
from torchrl.data import Categorical, Composite, TensorSpec, Unbounded
from torchrl.envs import EnvBase, GymWrapper, ParallelEnv, SerialEnv, Transform
from torchrl.envs.transforms import InitTracker, StepCounter, TransformedEnv

#: The entries of a step that are under ``"next"`` alone.
OUTCOME = ("reward", "terminated", "truncated")
#: The entries that are counted over an episode, and their values at a reset.
COUNTED: dict[str, Any] = {"step_count": 0, "is_init": True}
#: The entry that says whether a step succeeded.
SUCCESS = "success"


class MadeGymEnv(GymWrapper):
    """TorchRL's wrapper of an environment that :func:`~rlkit_sac.envs.make_env` made.

    >>> import gymnasium as gym
    >>> MadeGymEnv(gym.make("Pendulum-v1")).gym_env().spec.id
    'Pendulum-v1'
    """

    def gym_env(self) -> Any:
        """Returns the environment inside, as this wrapper steps it."""
        return self._env


class MadeSerialEnv(SerialEnv):
    """Several environments that :func:`~rlkit_sac.envs.make_env` made, side by side."""


def base_env(env: EnvBase) -> EnvBase:
    """Returns the environment under all transforms."""
    while isinstance(env, TransformedEnv):
        env = env.base_env
    return env


def first_env(env: EnvBase) -> EnvBase:
    """Returns the environment under all transforms, of several in one the first."""
    base = base_env(env)
    if isinstance(base, SerialEnv):
        base.start()
        return base_env(base._envs[0])
    if isinstance(base, ParallelEnv):  # whose environments are in other processes
        return base_env(base.create_env_fn[0](**base.create_env_kwargs[0]))
    return base


def gym_envs(env: EnvBase) -> list[Any]:
    """Returns the Gymnasium environments in an environment, as they are stepped.

    Args:
        env: an environment made by :func:`~rlkit_sac.envs.make_env`; several environments are
            started if they are closed.

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


def save_episodes(env: EnvBase) -> list[dict[str, Any]]:
    """Returns the unfinished episode of each environment: its number and its actions so far.

    One entry per environment:

    - ``episode``: number of the episode, from 0, which gives the seed of its reset,
    - ``actions``: an array ``[T, …]`` for each part of the action, as the environment received it
      in the T steps since the reset; empty without a step,
    - ``outcome``: arrays of the last observation and the last reward; None before any reset.

    Args:
        env: an environment made by :func:`make_env`.

    >>> from rlkit_sac.envs import make_env
    >>> env = make_env("Pendulum-v1", num_envs=2)
    >>> _ = env.rollout(3)
    >>> [(saved["episode"], saved["actions"][0].shape) for saved in save_episodes(env)]
    [(0, (3, 1)), (0, (3, 1))]
    """
    return [each.get_wrapper_attr("save_episode")() for each in gym_envs(env)]


def load_episodes(env: EnvBase, episodes: Sequence[Mapping[str, Any]]) -> list[bool]:
    """Lets the next reset of each environment continue a saved episode.

    The episode is reset with its seed, and its actions are repeated. The next reset of the
    environment then returns the observation of that moment; ``is_init``, ``step_count`` and the
    like are the caller's to set. Where the outcome is not the saved one, because the environment
    is not determined by the seed of its reset and the actions, the next episode begins instead.

    Args:
        env: an environment made by :func:`make_env` for the same task, seed and number of
            environments.
        episodes: the episodes that :func:`save_episodes` returned.

    Returns:
        For each environment whether its episode continues exactly.

    >>> from rlkit_sac.envs import make_env
    >>> env, again = make_env("Pendulum-v1"), make_env("Pendulum-v1")
    >>> last = env.rollout(3)["next", "observation"][-1]
    >>> load_episodes(again, save_episodes(env))
    [True]
    >>> bool((again.reset()["observation"] == last).all())
    True
    """
    envs = gym_envs(env)
    return [
        each.get_wrapper_attr("load_episode")(saved)
        for each, saved in zip(envs, episodes, strict=True)
    ]


def is_plain_gym_env(env: EnvBase) -> bool:
    """Return whether :func:`~rlkit_sac.envs.make_env` made an environment of Gymnasium's as it is.

    One with further transforms is not.
    """
    if not isinstance(env, TransformedEnv):
        return False
    expected = [InitTracker, StepCounter, PreviousAction]
    if [type(each) for each in env.transform] != expected or env.transform[1].max_steps:
        return False
    return type(env.base_env) in (MadeGymEnv, MadeSerialEnv)


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


def _unbounded(spec: TensorSpec) -> TensorSpec:
    if isinstance(spec, Composite):
        parts = {name: _unbounded(part) for name, part in spec.items()}
        return Composite(parts, shape=spec.shape, device=spec.device)
    if isinstance(spec, Categorical):
        return spec.clone()
    return Unbounded(shape=spec.shape, device=spec.device, dtype=spec.dtype)
