"""Seeded episodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlkit_sac.envs.spaces import build_from_leaves


def episode_seed(seed: int, env_index: int, episode: int) -> int:
    """Returns the reset seed of one episode, 31 bits wide.

    Args:
        seed: seed of the run.
        env_index: position of the environment among those that run side by side, from 0.
        episode: number of the episode in its environment, from 0.

    >>> episode_seed(0, 0, 0) == episode_seed(0, 0, 0)
    True
    >>> episode_seed(0, 0, 1) == episode_seed(0, 1, 0)
    False
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(env_index, episode))
    # Some simulators store the seed in a signed 32-bit integer.
    return int(sequence.generate_state(1, np.uint32)[0] >> 1)


class EpisodeSeeding(gym.Wrapper[Any, Any, Any, Any]):
    """Seeds every reset with :func:`episode_seed`, so that an episode depends on nothing before it.

    The environment's action space is seeded along, for environments that draw from it. A reset
    with an explicit seed makes it the seed of the run and begins again at episode 0.

    So an unfinished episode is its number and its actions since the reset, which another process
    repeats to continue it.

    Args:
        env: any Gymnasium environment.
        seed: seed of the run.
        env_index: position of the environment among those that run side by side. Default: 0.

    Attributes:
        env_index: position of the environment among those that run side by side.
        reset_seed: seed of the present episode.
        episode_return: sum of the task's own rewards since the reset, in float64.

    >>> env = EpisodeSeeding(gym.make("Pendulum-v1"), seed=0)
    >>> (first, _), (second, _) = env.reset(), env.reset()
    >>> again, _ = EpisodeSeeding(gym.make("Pendulum-v1"), seed=0).reset()
    >>> bool((first == again).all()), bool((first == second).all())
    (True, False)
    """

    def __init__(self, env: gym.Env[Any, Any], *, seed: int, env_index: int = 0) -> None:
        super().__init__(env)
        self._seed, self.env_index = seed, env_index
        self._next_episode = 0
        self._actions: list[list[NDArray[Any]]] = []  # since the reset, the leaves of each
        self._outcome: tuple[Any, Any] | None = None  # the last observation and reward
        self.episode_return: Any = 0.0
        self._continued: tuple[Any, dict[str, Any]] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins the next episode, or returns the last observation of the one that was loaded."""
        if seed is not None:
            self._seed, self._next_episode, self._continued = seed, 0, None
        if self._continued is not None:
            continued, self._continued = self._continued, None
            return continued
        self._actions = []
        derived = episode_seed(self._seed, self.env_index, self._next_episode)
        self.reset_seed = derived
        self._next_episode += 1
        self.env.action_space.seed(derived)
        _renew_box2d_world(self.env.unwrapped)
        observation, info = self.env.reset(seed=derived, options=options)
        self._outcome, self.episode_return = (observation, 0.0), 0.0
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes one step, and notes its action."""
        self._actions.append(_copy_leaves(action))
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._outcome = observation, reward
        if terminated not in (0, 1) or truncated not in (0, 1):
            raise TypeError(f"terminated {terminated!r} and truncated {truncated!r} are not bool")
        exact = reward if isinstance(reward, float) else np.asarray(reward, np.float64).ravel()
        self.episode_return = self.episode_return + exact
        return observation, reward, bool(terminated), bool(truncated), info

    @property
    def steps(self) -> int:
        """The number of steps since the reset."""
        return len(self._actions)

    @property
    def position(self) -> str:
        """The present step and episode, for messages."""
        episode = max(self._next_episode - 1, 0)
        seed = episode_seed(self._seed, self.env_index, episode)
        where = f"step {len(self._actions)}" if self._actions else "the reset"
        return f"{where} of its episode {episode} (reset seed {seed})"

    def save_episode(self) -> dict[str, Any]:
        """Return the episode as :func:`rlkit_sac.envs.save_episodes` does."""
        return {
            "episode": max(self._next_episode - 1, 0),
            "actions": [np.stack(column) for column in zip(*self._actions, strict=True)],
            "outcome": None if self._outcome is None else _copy_leaves(self._outcome),
        }

    def load_episode(self, saved: Mapping[str, Any]) -> bool:
        """Continues an episode as :func:`rlkit_sac.envs.load_episodes` does, in the next reset."""
        self._next_episode, self._continued = saved["episode"], None
        observation, info = self.reset()
        for leaves in zip(*saved["actions"], strict=True):
            action = build_from_leaves(self.env.action_space, iter(leaves))
            observation, _, terminated, truncated, info = self.step(action)
            if terminated or truncated:
                return False
        if saved["outcome"] is not None:
            found = zip(_copy_leaves(self._outcome), saved["outcome"], strict=True)
            if not all(np.array_equal(*pair, equal_nan=True) for pair in found):
                return False
        self._continued = observation, info
        return True


def _copy_leaves(value: Any) -> list[NDArray[Any]]:
    """Return copies of the arrays and numbers in an action or observation."""
    if isinstance(value, (tuple, Mapping)):
        parts = value if isinstance(value, tuple) else value.values()
        return [leaf for part in parts for leaf in _copy_leaves(part)]
    return [np.array(value)]


def _renew_box2d_world(env: Any) -> None:
    """Gives a Box2D task a new world, so that its next episode depends on nothing before it.

    BipedalWalker empties its world at a reset but keeps it, and what is left of earlier episodes
    (the order of its contacts) shows in the last digits of the next one.

    Args:
        env: an environment without wrappers; anything but a Box2D task is left alone.
    """
    world: Any = getattr(env, "world", None)
    if type(world).__name__ != "b2World" or not hasattr(env, "_destroy"):
        return
    make_world: Any = type(world)
    env._destroy()
    if hasattr(env, "terrain"):
        env.terrain = []  # its bodies are gone: the reset must not take them out of the new world
    env.world = make_world(gravity=world.gravity)
