"""Seeds that make every episode a function of run seed, environment index and episode number."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


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

    Args:
        env: any Gymnasium environment.
        seed: seed of the run.
        env_index: position of the environment among those that run side by side. Default: 0.

    >>> env = EpisodeSeeding(gym.make("Pendulum-v1"), seed=0)
    >>> (first, _), (second, _) = env.reset(), env.reset()
    >>> again, _ = EpisodeSeeding(gym.make("Pendulum-v1"), seed=0).reset()
    >>> bool((first == again).all()), bool((first == second).all())
    (True, False)
    """

    def __init__(self, env: gym.Env[Any, Any], *, seed: int, env_index: int = 0) -> None:
        super().__init__(env)
        self._seed = seed
        self._env_index = env_index
        self._next_episode = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins the next episode."""
        if seed is not None:
            self._seed = seed
            self._next_episode = 0
        derived = episode_seed(self._seed, self._env_index, self._next_episode)
        self._next_episode += 1
        self.env.action_space.seed(derived)
        return self.env.reset(seed=derived, options=options)
