"""What networks need to know of an environment."""

from __future__ import annotations

from torchrl.data import Bounded
from torchrl.envs import EnvBase

from rlkit_sac.errors import ConfigError


def continuous_action_bounds(env: EnvBase) -> tuple[list[float], list[float]]:
    """Lower and upper bounds of each action dimension, in the units of the ``action`` entry.

    Args:
        env: made by :func:`~rlkit_sac.envs.make_env`, batched or not.

    Raises:
        ConfigError: for an environment whose actions are not continuous.

    >>> from rlkit_sac.envs import make_env
    >>> continuous_action_bounds(make_env("Pendulum-v1"))
    ([-1.0], [1.0])
    """
    spec = env.action_spec_unbatched
    if not isinstance(spec, Bounded):
        raise ConfigError(
            f"this algorithm acts in continuous spaces, but the actions are {type(spec).__name__} "
            f"of shape {list(spec.shape)}: choose an environment with a Box action space"
        )
    return spec.space.low.tolist(), spec.space.high.tolist()


def observation_dim(env: EnvBase) -> int:
    """Length of the observation vector.

    Args:
        env: made by :func:`~rlkit_sac.envs.make_env`, batched or not.

    Raises:
        ConfigError: for an observation that is not a vector, such as an image.

    >>> from rlkit_sac.envs import make_env
    >>> observation_dim(make_env("Pendulum-v1"))
    3
    """
    shape = env.observation_spec_unbatched["observation"].shape
    if len(shape) != 1:
        raise ConfigError(
            f"the networks of this recipe read vectors, but the observation has the shape "
            f"{list(shape)}: flatten it in the environment, or pass networks of your own to the "
            "loss in a copy of the recipe"
        )
    return shape[0]


def check_scalar_reward(env: EnvBase) -> None:
    """Refuse an environment with a vector reward.

    Args:
        env: made by :func:`~rlkit_sac.envs.make_env`, batched or not.

    Raises:
        ConfigError: naming the reward's shape.

    >>> from rlkit_sac.envs import make_env
    >>> check_scalar_reward(make_env("Pendulum-v1"))
    """
    shape = env.reward_spec_unbatched.shape
    if shape.numel() != 1:
        raise ConfigError(
            f"this recipe learns from scalar rewards, but the reward has the shape {list(shape)}: "
            "combine its dimensions in the environment, or use the loss with reward_weights in a "
            "recipe of your own"
        )
