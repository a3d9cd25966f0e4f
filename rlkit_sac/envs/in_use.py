"""Environments that are in use, so that none is stepped by two users at once."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any
from weakref import WeakValueDictionary

import gymnasium as gym
from torchrl.envs import EnvBase

from rlkit_sac.envs.torchrl_env import base_env
from rlkit_sac.errors import ConfigError

# What steps an environment, by the id of the latter without wrappers.
_in_use: WeakValueDictionary[int, gym.Env[Any, Any] | EnvBase] = WeakValueDictionary()


def mark_in_use(env: gym.Env[Any, Any] | EnvBase, by: gym.Env[Any, Any] | EnvBase) -> set[int]:
    """Note what steps an environment, as long as that exists, for :func:`refuse_shared`."""
    stepped = _stepped_env_ids(env)
    _in_use.update(dict.fromkeys(stepped, by))
    return stepped


def mark_unused(stepped: Iterable[int]) -> None:
    """Forget what :func:`mark_in_use` returned."""
    for each in stepped:
        _in_use.pop(each, None)


def refuse_shared(env: gym.Env[Any, Any] | EnvBase, name: str) -> None:
    """Refuse an environment that an earlier environment also steps.

    Args:
        env: a new environment, of Gymnasium or TorchRL.
        name: the name of its task.

    Raises:
        ConfigError: if the function or entry point returned the same object again.
    """
    stepped = _stepped_env_ids(env)
    if not stepped.isdisjoint(_in_use):
        gc.collect()  # the earlier environment may be garbage
    if not stepped.isdisjoint(_in_use):
        raise ConfigError(
            f"{name}: the function or entry point returned an environment that is in use already "
            f"({type(_innermost(env)).__name__}): make a new one in each call"
        )


def _innermost(env: Any) -> Any:
    """Return the environment under all wrappers."""
    if isinstance(env, gym.Env):
        return env.unwrapped
    base = base_env(env)
    inner = vars(base).get("_env", base)  # of TorchRL's wrappers
    return inner.unwrapped if isinstance(inner, gym.Env) else inner


def _stepped_env_ids(env: gym.Env[Any, Any] | EnvBase) -> set[int]:
    """Return the identities of the innermost environment, and of the environments it holds."""
    inner = _innermost(env)
    held = (x for x in getattr(inner, "__dict__", {}).values() if isinstance(x, gym.Env))
    return {id(inner), *(id(x.unwrapped) for x in held)}
