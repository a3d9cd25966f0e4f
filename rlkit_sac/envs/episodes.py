"""Saving episodes, and continuing them in another process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchrl.envs import EnvBase

from rlkit_sac.envs.workers import base_env, call_each, is_batched, watching
from rlkit_sac.errors import ConfigError, RunError


def save_episodes(env: EnvBase) -> list[dict[str, Any]]:
    """Returns the state of each environment, as JSON values and NumPy arrays.

    One entry per environment:

    - ``episode``: number of the episode, from 0,
    - ``step``: frames since its reset,
    - ``simulator``: the state of the environment at that step; None before the first reset, and
      where it cannot be saved (see :func:`can_save_episodes`).

    Args:
        env: what :func:`make_env` returned.

    Raises:
        RunError: several environments have not been started by a reset, or are closed.
        EnvironmentFault: the process of an environment has failed.

    >>> from rlkit_sac.envs import make_env
    >>> env = make_env("Pendulum-v1", num_envs=2)
    >>> _ = env.rollout(3)
    >>> [(saved["episode"], saved["step"]) for saved in save_episodes(env)]
    [(0, 3), (0, 3)]
    """
    return _call_open(env, "save_episode")


def load_episodes(env: EnvBase, episodes: Sequence[dict[str, Any]]) -> list[bool]:
    """Lets the next reset of each environment continue a saved episode.

    That reset repeats the reset of the episode, with its seed, and then gives the environment the
    state it had. What it returns is the observation of the reset: the tensors that belong to the
    saved step are the caller's. Where the state could not be saved, the next episode begins. A
    state that does not fit raises `ConfigError` in that reset.

    Args:
        env: what :func:`make_env` returned for the same task, seed and number of environments.
        episodes: what :func:`save_episodes` returned, possibly through JSON.

    Returns:
        For each environment whether its episode continues exactly.

    Raises:
        ConfigError: the number of episodes is not that of the environments.
        EnvironmentFault: the process of an environment has failed.

    >>> from rlkit_sac.envs import make_env
    >>> env, again = make_env("Pendulum-v1"), make_env("Pendulum-v1")
    >>> _ = env.rollout(3)
    >>> load_episodes(again, save_episodes(env))
    [True]
    >>> _ = again.reset()
    >>> save_episodes(again)[0]["step"]
    3
    """
    base = base_env(env)
    count = base.num_workers if is_batched(base) else 1
    if len(episodes) != count:
        raise ConfigError(
            f"{len(episodes)} saved episodes do not fit {count} environments: "
            "num_envs must be that of the saved run"
        )
    if not is_batched(base):
        return [base.load_episode(episodes[0])]
    with watching(base):
        if base.is_closed:
            base.start()
        return [base[index].load_episode(saved)[0] for index, saved in enumerate(episodes)]


def can_save_episodes(env: EnvBase) -> bool:
    """Whether the state of every environment can be saved in mid-episode.

    It can for the classic control and MuJoCo tasks of Gymnasium, and where the attributes of an
    environment are numbers, arrays, strings, random generators, containers of these, and plain
    Python objects of such attributes. It cannot where the state is in a simulator of another
    library (Box2D) or in a list of objects. State outside of the attributes is not detected:
    variables of modules and classes, and changes that steps make to MuJoCo's model.

    Args:
        env: what :func:`make_env` returned, after a reset.

    Raises:
        RunError: several environments have not been started by a reset, or are closed.
        EnvironmentFault: the process of an environment has failed.

    >>> from rlkit_sac.envs import make_env
    >>> for task in ("Pendulum-v1", "LunarLander-v3"):
    ...     env = make_env(task)
    ...     _ = env.reset()
    ...     can_save_episodes(env)
    True
    False
    """
    return all(reason is None for reason in _call_open(env, "why_not_saved"))


def _call_open(env: EnvBase, method: str) -> list[Any]:
    base = base_env(env)
    if is_batched(base) and base.is_closed:
        raise RunError("the environments are closed; they can be saved after a reset")
    return call_each(env, method)


class SavedEpisodes:
    """The episodes of an environment as a part of a checkpoint.

    Args:
        env: what :func:`make_env` returned.

    >>> from rlkit_sac.envs import make_env
    >>> env, again = make_env("Pendulum-v1"), make_env("Pendulum-v1")
    >>> _ = env.rollout(3)
    >>> SavedEpisodes(again).load_state_dict(SavedEpisodes(env).state_dict())
    >>> save_episodes(again)[0]["step"]
    3
    """

    def __init__(self, env: EnvBase) -> None:
        self._env = env

    def state_dict(self) -> dict[str, Any]:
        """As :func:`save_episodes`."""
        return {"episodes": save_episodes(self._env)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As :func:`load_episodes`, with the reset."""
        load_episodes(self._env, state["episodes"])
        self._env.reset()
