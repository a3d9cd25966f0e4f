"""Sizes and bounds of an environment, for making networks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchrl.data import Bounded, Categorical, Composite, TensorSpec
from torchrl.envs import EnvBase, TransformedEnv

from rlkit_sac.envs.action_masks import ACTION_MASK
from rlkit_sac.envs.adapted_env import AdaptedEnv, TaskConversion, adapted_task
from rlkit_sac.envs.agent_env import AgentEnv
from rlkit_sac.envs.exploration_noise import ExplorationNoise
from rlkit_sac.envs.torchrl_env import gym_envs, is_plain_gym_env
from rlkit_sac.errors import TaskError


def continuous_action_bounds(env: EnvBase) -> tuple[list[float], list[float]]:
    """Return lower and upper bounds of each action dimension, in units of the ``action`` entry.

    Args:
        env: made by :func:`~rlkit_sac.envs.make_env`, batched or not.

    Raises:
        TaskError: for an environment whose actions are not continuous.

    >>> from rlkit_sac.envs import make_env
    >>> continuous_action_bounds(make_env("Pendulum-v1"))
    ([-1.0], [1.0])
    """
    return _bounds(_action_spec(env, Bounded, "continuous spaces"))


def discrete_action_count(env: EnvBase) -> int:
    """Return the number K of discrete actions.

    Args:
        env: made by :func:`~rlkit_sac.envs.make_env`, batched or not.

    Raises:
        TaskError: for an environment whose actions are not discrete.

    >>> from rlkit_sac.envs import make_env
    >>> discrete_action_count(make_env("CartPole-v1"))
    2
    """
    return int(_action_spec(env, Categorical, "discrete spaces").space.n)


def has_discrete_actions(env: EnvBase) -> bool:
    """Return whether actions are indices; otherwise they are vectors.

    Args:
        env: made by :func:`~rlkit_sac.envs.make_env`, batched or not.

    Raises:
        TaskError: for an environment with hybrid actions.

    >>> from rlkit_sac.envs import make_env
    >>> has_discrete_actions(make_env("CartPole-v1")), has_discrete_actions(make_env("Pendulum-v1"))
    (True, False)
    """
    spec = _action_spec(env, Bounded | Categorical, "discrete or in continuous spaces")
    return isinstance(spec, Categorical)


def hybrid_action_bounds(env: EnvBase) -> tuple[int, list[float], list[float]]:
    """Return the number K of discrete actions, and the bounds of the continuous action.

    Args:
        env: made by :func:`~rlkit_sac.envs.make_env`, batched or not.

    Returns:
        K, and the lower and upper bounds in the units of the ``("action", "continuous")`` entry.

    Raises:
        TaskError: for an environment whose actions are not both discrete and continuous.

    >>> from rlkit_sac.envs import make_env
    >>> hybrid_action_bounds(make_env("rlkit_sac/Moving-v0"))
    (3, [-1.0, -1.0], [1.0, 1.0])
    """
    spec = _action_spec(env, Composite, "spaces with a discrete and a continuous part")
    return int(spec["discrete"].space.n), *_bounds(spec["continuous"])


def parameter_mask(env: EnvBase) -> Tensor | None:
    """Return the mask of the continuous dimensions that each discrete action uses.

    Args:
        env: made by :func:`~rlkit_sac.envs.make_env`, batched or not.

    Returns:
        Bool `[K, D]` on the environment's device, or None where each discrete action uses each
        dimension (see :meth:`~rlkit_sac.envs.actions.ActionConversion.parameter_mask`).

    >>> from rlkit_sac.envs import make_env
    >>> parameter_mask(make_env("rlkit_sac/Platform-v0"))
    tensor([[ True, False, False],
            [False,  True, False],
            [False, False,  True]])
    >>> parameter_mask(make_env("rlkit_sac/Moving-v0")) is None
    True
    """
    mask = find_conversion(env).parameter_mask
    return None if mask is None else torch.as_tensor(mask, device=env.device)


def observation_layout(env: EnvBase) -> list[dict[str, Any]]:
    """Return the observed entries, in the order in which networks read them, as JSON.

    Each has a ``key`` and the ``shape`` of one observation. Images also have ``scale``, the largest
    value of a pixel, and ``channels``, ``"first"`` or ``"last"``: the smaller of the two
    dimensions, and the last one if they are equal. ``[H, W]`` is one channel, and K frames of
    ``[H, W, C]`` are K·C channels.

    Args:
        env: made by :func:`~rlkit_sac.envs.make_env`, batched or not.

    >>> from rlkit_sac.envs import make_env
    >>> observation_layout(make_env("Pendulum-v1"))
    [{'key': 'observation', 'shape': [3]}]
    """
    return find_conversion(env).observe.layout()


def critic_layout(env: EnvBase) -> list[dict[str, Any]]:
    """Return the entries that critics read, described as by :func:`observation_layout`.

    Args:
        env: made by :func:`~rlkit_sac.envs.make_env`, batched or not.

    >>> from rlkit_sac.envs import make_env
    >>> critic_layout(make_env("Pendulum-v1"))
    [{'key': 'observation', 'shape': [3]}]
    """
    task = find_conversion(env)
    return (task.critic or task.observe).layout()


def describe_task(env: EnvBase) -> dict[str, Any] | None:
    """Return the spaces of a task and the options of its observations and actions, as JSON.

    Args:
        env: the environment of the task.

    Returns:
        ``None`` for an environment that :func:`~rlkit_sac.envs.make_env` did not make, or with
        spaces other than `Box`, `Discrete`, `MultiBinary`, `MultiDiscrete`, `Tuple` and `Dict`, or
        with names that JSON does not have, such as tuples.

    >>> from rlkit_sac.envs import make_env
    >>> describe_task(make_env("CartPole-v1"))["action_space"]
    {'kind': 'Discrete', 'n': 2, 'start': 0}
    """
    made = is_plain_gym_env(env)
    if isinstance(env, TransformedEnv) and isinstance(env.base_env, AdaptedEnv):
        made = sum(not isinstance(part, ExplorationNoise) for part in env.transform) == 3
    return find_conversion(env).description if made else None


def action_mask_key(env: EnvBase) -> str | None:
    """Return the key of the mask of allowed actions; ``None`` where the task gives none.

    Args:
        env: made by :func:`~rlkit_sac.envs.make_env`, batched or not.

    >>> from rlkit_sac.envs import make_env
    >>> action_mask_key(make_env("Taxi-v4")), action_mask_key(make_env("CartPole-v1"))
    ('action_mask', None)
    """
    return ACTION_MASK if ACTION_MASK in env.observation_spec.keys() else None  # noqa: SIM118


def observation_dim(env: EnvBase) -> int:
    """Return the length of the observation vector, for networks that read nothing else.

    Args:
        env: made by :func:`~rlkit_sac.envs.make_env`, batched or not.

    Raises:
        TaskError: for an observation that is not a vector, such as an image.

    >>> from rlkit_sac.envs import make_env
    >>> observation_dim(make_env("Pendulum-v1"))
    3
    """
    shapes = {entry["key"]: entry["shape"] for entry in observation_layout(env)}
    if len(shapes) > 1 or len(shapes.get("observation", ())) != 1:
        raise TaskError(
            f"the observation is no vector, but has the shapes {shapes}: give networks "
            "observation_inputs(config.network, env) in place of observation_dim(env)"
        )
    return int(shapes["observation"][0])


def reward_dim(env: EnvBase) -> int:
    """Return the number M of reward dimensions; 1 for a scalar reward.

    Args:
        env: made by :func:`~rlkit_sac.envs.make_env`, batched or not.

    >>> from rlkit_sac.envs import make_env
    >>> reward_dim(make_env("Pendulum-v1"))
    1
    """
    return env.reward_spec_unbatched.shape[-1]


def check_scalar_reward(env: EnvBase) -> None:
    """Refuse vector rewards.

    Args:
        env: made by :func:`~rlkit_sac.envs.make_env`, batched or not.

    Raises:
        TaskError: for an environment with a vector reward.

    >>> from rlkit_sac.envs import make_env
    >>> check_scalar_reward(make_env("Pendulum-v1"))
    """
    if (dim := reward_dim(env)) > 1:
        text = "the recipes of SAC train this task, or wrap it in gymnasium's TransformReward"
        raise TaskError(f"this algorithm learns from one number, the reward has {dim}: {text}")


def find_conversion(env: EnvBase) -> TaskConversion | AgentEnv:
    """Return the object that converts between a task and the agent."""
    adapted = adapted_task(env)
    return gym_envs(env)[0] if adapted is None else adapted


def _bounds(spec: TensorSpec) -> tuple[list[float], list[float]]:
    return spec.space.low.tolist(), spec.space.high.tolist()


def _action_spec(env: EnvBase, kind: Any, spaces: str) -> TensorSpec:
    """Return the spec of actions; refuse a kind in which an algorithm cannot act."""
    spec = env.full_action_spec_unbatched["action"]
    if isinstance(spec, kind):
        return spec
    if isinstance(spec, Composite):
        choices, dim = spec["discrete"].space.n, spec["continuous"].shape[-1]
        actions = f"Discrete({choices}) and a Box of shape ({dim},) at once"
        advice = "the recipe hybrid_sac trains"
    elif isinstance(spec, Categorical):
        actions, advice = f"Discrete({spec.space.n})", "the recipes discrete_sac and acer train"
    else:
        actions = f"a Box of shape {tuple(spec.shape)}"
        advice = "the recipes sac, kl_prior_sac, value_sac and acer train"
    raise TaskError(
        f"this algorithm acts in {spaces}, but the actions are {actions}: {advice} this task"
    )
