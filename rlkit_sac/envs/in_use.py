"""Environments that are in use, so that none is stepped by two users at once."""

from __future__ import annotations

import gc
from typing import Any
from weakref import WeakValueDictionary

import gymnasium as gym
from torchrl.envs import EnvBase

from rlkit_sac.envs.torchrl_env import base_env
from rlkit_sac.errors import ConfigError

# What steps an environment, by the id of the latter without wrappers.
_in_use: WeakValueDictionary[int, gym.Env[Any, Any] | EnvBase] = WeakValueDictionary()


def mark_in_use(env: gym.Env[Any, Any] | EnvBase, by: gym.Env[Any, Any] | EnvBase) -> None:
    """Note what steps an environment, as long as that exists, for :func:`refuse_shared`."""
    _in_use[id(_innermost(env))] = by


def mark_unused(env: gym.Env[Any, Any]) -> None:
    """Forget what steps an environment."""
    _in_use.pop(id(_innermost(env)), None)


def refuse_shared(env: gym.Env[Any, Any] | EnvBase, name: str) -> None:
    """Refuse an environment that an earlier environment also steps.

    Args:
        env: a new environment, of Gymnasium or TorchRL.
        name: the name of its task.

    Raises:
        ConfigError: if the function or entry point returned the same object again.
    """
    inner = _innermost(env)
    if id(inner) in _in_use:
        gc.collect()  # the earlier environment may be garbage
    if id(inner) in _in_use:
        raise ConfigError(
            f"{name}: the function or entry point returned an environment that is in use already "
            f"({type(inner).__name__}): make a new one in each call"
        )


def _innermost(env: Any) -> Any:
    """Return the environment under all wrappers."""
    if not isinstance(env, gym.Env):
        base = base_env(env)
        env = vars(base).get("_env", base)  # of TorchRL's wrappers
    return env.unwrapped if isinstance(env, gym.Env) else env
