"""Calling a method of each environment, in this process or in processes of their own."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torchrl.envs import EnvBase, SerialEnv, TransformedEnv

from rlkit_sac.envs.workers import WatchedParallelEnv


def call_each(env: EnvBase, method: str, *arguments: Any) -> list[Any]:
    """Calls a method of each environment and returns the results.

    Args:
        env: what :func:`~rlkit_sac.envs.make_env` returned; several environments are started if
            they are closed.
        method: name of a method of the environments.
        arguments: of the method.

    Raises:
        EnvironmentFault: the process of an environment has failed.

    >>> from rlkit_sac.envs import make_env
    >>> call_each(make_env("Pendulum-v1", num_envs=2), "get_wrapper_attr", "max_torque")
    [2.0, 2.0]
    """
    base = base_env(env)
    if not is_batched(base):
        return [getattr(base, method)(*arguments)]
    with watching(base):
        if base.is_closed:
            base.start()
        return list(getattr(base, method)(*arguments))


def base_env(env: EnvBase) -> EnvBase:
    """Returns the environment under all transforms."""
    while isinstance(env, TransformedEnv):
        env = env.base_env
    return env


def is_batched(env: EnvBase) -> bool:
    """Whether an environment without transforms consists of several."""
    return isinstance(env, (SerialEnv, WatchedParallelEnv))


def watching(env: EnvBase) -> AbstractContextManager[None]:
    """Raises the failure of a process in the block as the exception that caused it."""
    return env.watching() if isinstance(env, WatchedParallelEnv) else nullcontext()
