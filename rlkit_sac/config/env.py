"""The task of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rlkit_sac.config.bounds import PositiveInt


@dataclass
class EnvConfig:
    """The task and how many copies of it run side by side.

    >>> EnvConfig(id="HalfCheetah-v5").num_envs
    1
    """

    id: str = "Pendulum-v1"
    """Gymnasium id of the task."""

    num_envs: PositiveInt = 1
    """Environments stepped together."""

    parallel: bool = False
    """Run each environment in its own process."""

    rescale_actions: bool = True
    """Present bounded continuous actions to the policy as [-1, 1]."""

    max_episode_steps: PositiveInt | None = None
    """Time limit in frames; null keeps the task's own."""

    kwargs: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of gymnasium.make, for example {goal_velocity: 0.1}."""

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of ``make_env`` for one environment."""
        return {
            "rescale_actions": self.rescale_actions,
            "max_episode_steps": self.max_episode_steps,
            "kwargs": self.kwargs,
        }
