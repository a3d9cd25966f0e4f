"""The processes that collect frames beside the one that learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rlkit_sac.config.bounds import NonNegativeInt, PositiveFloat, PositiveInt


@dataclass
class WorkersConfig:
    """Processes on Ray, each with ``env.num_envs`` environments, that collect frames.

    >>> WorkersConfig(number=2).batch_envs(num_envs=4)
    8
    >>> WorkersConfig(number=2, mode="async").batch_envs(num_envs=4)
    4
    """

    number: NonNegativeInt = 0
    """Processes that collect frames, on Ray; 0 collects in this process."""

    address: str | None = None
    """Ray cluster to use: null starts one on this machine, auto takes the one that runs here,
    host:port another."""

    mode: Literal["sync", "async"] = "sync"
    """sync waits for all workers and gives the numbers of one process with as many environments;
    async learns from each batch as it comes."""

    publish_interval: PositiveInt = 1
    """Updates between two transfers of the policy to the workers, in mode async."""

    restarts: NonNegativeInt = 10
    """How often each worker is replaced when its process or machine dies."""

    patience: PositiveFloat = 300.0
    """Seconds without a batch from any worker after which the run saves and ends."""

    cpus: PositiveFloat = 1.0
    """CPUs that Ray reserves for each worker; below 1 for environments that mostly wait."""

    @property
    def is_async(self) -> bool:
        """Whether batches come from one worker at a time."""
        return self.number > 0 and self.mode == "async"

    def batch_envs(self, num_envs: int) -> int:
        """Environments whose frames make up a batch.

        Args:
            num_envs: environments of each process.
        """
        return num_envs if self.is_async else num_envs * max(self.number, 1)
