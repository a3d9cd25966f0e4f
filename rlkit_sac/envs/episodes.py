"""Saving unfinished episodes, and continuing them in another process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchrl.envs import EnvBase

from rlkit_sac.envs.torchrl_env import gym_envs


def save_episodes(env: EnvBase) -> list[dict[str, Any]]:
    """Returns the unfinished episode of each environment: its number and its actions so far.

    One entry per environment:

    - ``episode``: number of the episode, from 0, which gives the seed of its reset,
    - ``actions``: an array ``[T, …]`` for each part of the action, as the environment received it
      in the T steps since the reset; empty without a step,
    - ``outcome``: arrays of the last observation and the last reward; None before any reset.

    Args:
        env: what :func:`make_env` returned.

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
        env: what :func:`make_env` returned for the same task, seed and number of environments.
        episodes: what :func:`save_episodes` returned.

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
