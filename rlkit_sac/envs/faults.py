"""Exceptions of environments, with the episode and step in which they were raised."""

from __future__ import annotations

from typing import Any, NoReturn

import gymnasium as gym

from rlkit_sac.errors import EnvironmentFault, RlkitSacError


class NamedFaults(gym.Wrapper[Any, Any, Any, Any]):
    """Turns exceptions of `step` and `reset` into `EnvironmentFault` with episode, step and seed.

    Args:
        env: environment with an :class:`~rlkit_sac.envs.seeding.EpisodeSeeding` among its wrappers.
        env_index: position of the environment among those that run side by side, from 0.

    >>> from rlkit_sac.envs.seeding import EpisodeSeeding
    >>> env = NamedFaults(EpisodeSeeding(gym.make("CartPole-v1"), seed=0), env_index=0)
    >>> _ = env.reset()
    >>> env.step(7)
    Traceback (most recent call last):
    rlkit_sac.errors.EnvironmentFault: environment 0 raised AssertionError: ... in step 1 of its
    episode 0 (reset seed 2044266242)
    """

    def __init__(self, env: gym.Env[Any, Any], *, env_index: int) -> None:
        super().__init__(env)
        self._env_index = env_index

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Resets the environment."""
        try:
            return self.env.reset(seed=seed, options=options)
        except (Exception, SystemExit) as error:
            self.raise_fault(error)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes one step."""
        try:
            return self.env.step(action)
        except (Exception, SystemExit) as error:
            self.raise_fault(error)

    def raise_fault(self, error: Exception | SystemExit) -> NoReturn:
        """Raises an exception of the environment as `EnvironmentFault`."""
        if isinstance(error, RlkitSacError):
            raise error
        position = self.env.get_wrapper_attr("position")
        raise EnvironmentFault(
            f"environment {self._env_index} raised {in_one_line(error)} in {position}"
        ) from error


def in_one_line(error: BaseException) -> str:
    r"""Returns type and text of an exception without line breaks.

    >>> in_one_line(ValueError("two\n  lines")), in_one_line(KeyError())
    ('ValueError: two lines', 'KeyError')
    """
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
