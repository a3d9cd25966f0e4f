"""The replay buffer of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from rlkit_sac.config.bounds import Bound, NonNegativeFloat, PositiveFloat, PositiveInt


@dataclass
class StorageConfig:
    """Size and place of the replay buffer, in every recipe.

    >>> StorageConfig(capacity=1000).storage
    'tensor'
    """

    capacity: PositiveInt = 1_000_000
    """Transitions kept; the oldest are overwritten."""

    batch_size: PositiveInt = 256
    """Transitions sampled for one update, or slices of them."""

    storage: Literal["tensor", "memmap"] = "tensor"
    """Where transitions are stored: in memory, or in memory-mapped files on disk."""


@dataclass
class ReplayConfig(StorageConfig):
    """Size and place of the replay buffer, and how transitions are drawn.

    >>> ReplayConfig(capacity=100).errors()
    [('capacity', 'must be at least batch_size (256), got 100')]
    """

    slice_length: PositiveInt = 1
    """Consecutive frames of a slice, for loss.lmbda: n of them give n-step targets."""

    prioritized: bool = False
    """Draw transitions by priorities, which follow their TD errors, instead of uniformly."""

    priority_alpha: NonNegativeFloat = 0.6
    """Exponent of priorities: 0 for uniform sampling, 1 in proportion to the error."""

    priority_beta: Annotated[float, Bound(ge=0, le=1)] = 0.4
    """Exponent of importance weights at first: 0 for none, 1 for a full correction."""

    priority_beta_frames: PositiveInt | None = 100_000
    """Frames over which priority_beta rises linearly to 1; null for never."""

    priority_eps: PositiveFloat = 1e-6
    """Added to each priority, so that every transition can be drawn."""

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        found = []
        if self.capacity < self.batch_size:
            text = f"must be at least batch_size ({self.batch_size}), got {self.capacity}"
            found.append(("capacity", text))
        if self.prioritized and self.slice_length > 1:
            text = f"must be false where slice_length is above 1 ({self.slice_length}), got true"
            found.append(("prioritized", text))
        return found
