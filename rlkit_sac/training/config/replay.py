"""Where the frames of a run go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rlkit_sac.training.bounds import PositiveInt


@dataclass
class ReplayConfig:
    """Size and place of the replay buffer.

    >>> ReplayConfig(capacity=100).errors()
    [('capacity', 'must be at least batch_size (256), got 100')]
    """

    capacity: PositiveInt = 1_000_000
    """Transitions kept; the oldest are overwritten."""

    batch_size: PositiveInt = 256
    """Transitions sampled for one update."""

    storage: Literal["tensor", "memmap"] = "tensor"
    """Where transitions lie: in memory, or in memory-mapped files on disk."""

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        if self.capacity >= self.batch_size:
            return []
        text = f"must be at least batch_size ({self.batch_size}), got {self.capacity}"
        return [("capacity", text)]
