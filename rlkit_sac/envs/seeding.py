"""Seeding each episode by the run's seed, the environment's index and the episode's number."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np

from rlkit_sac.envs.box2d import renew_box2d_world
from rlkit_sac.envs.faults import in_one_line
from rlkit_sac.envs.state import (
    CannotSaveError,
    fixed_parts,
    read_simulator,
    write_simulator,
)


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

    An unfinished episode can be saved, and continued in another process.

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
        self._step: int | None = None
        self._at_reset: dict[str, Any] = {}
        self._loaded: dict[str, Any] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins the next episode, or continues the one that was loaded."""
        if seed is not None:
            self._seed = seed
            self._next_episode = 0
            self._loaded = None
        loaded, self._loaded = self._loaded, None
        self._step = None
        derived = episode_seed(self._seed, self._env_index, self._next_episode)
        self._next_episode += 1
        self.env.action_space.seed(derived)
        renew_box2d_world(self.env.unwrapped)
        result = self.env.reset(seed=derived, options=options)
        self._at_reset = {}
        with suppress(Exception):  # objects may raise when their attributes are read
            self._at_reset = fixed_parts(self.env)
        self._step = 0
        if loaded is not None:
            write_simulator(self.env, loaded["simulator"])
            self._step = loaded["step"]
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes one step, and counts it."""
        if self._step is not None:
            self._step += 1
        return self.env.step(action)

    @property
    def position(self) -> str:
        """Where the environment is, for messages."""
        episode = max(self._next_episode - 1, 0)
        seed = episode_seed(self._seed, self._env_index, episode)
        where = f"step {self._step}" if self._step else "the reset"
        return f"{where} of its episode {episode} (reset seed {seed})"

    def save_episode(self) -> dict[str, Any]:
        """Returns the number of the episode, the frames since its reset, and the simulator's state.

        See :func:`rlkit_sac.envs.save_episodes`.
        """
        if self._loaded is not None:
            return self._loaded
        step = self._step or 0
        return {
            "episode": max(self._next_episode - 1, 0),
            "step": step,
            "simulator": None if self._step is None else self._read_simulator()[0],
        }

    def load_episode(self, saved: dict[str, Any]) -> bool:
        """Lets the next reset continue a saved episode; False if it will begin the one after it."""
        is_exact = saved["step"] == 0 or saved["simulator"] is not None
        self._next_episode = saved["episode"] + (not is_exact)
        self._loaded = saved if saved["simulator"] is not None else None
        return is_exact

    def why_not_saved(self) -> str | None:
        """Returns what keeps the present state from being saved, None if nothing does."""
        return self._read_simulator()[1]

    def _read_simulator(self) -> tuple[Any, str | None]:
        try:
            return read_simulator(self.env, self._at_reset), None
        except CannotSaveError as error:
            return None, str(error)
        except Exception as error:  # raised when attributes of an object are read
            return None, in_one_line(error)
