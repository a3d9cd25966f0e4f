"""Where the frames of a run go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from rlkit_sac.config.bounds import Bound, NonNegativeFloat, PositiveFloat, PositiveInt


@dataclass
class StorageConfig:
    """Size and place of the replay buffer, in every recipe.

    >>> StorageConfig(capacity=100).errors()
    [('capacity', 'must be at least batch_size (256), got 100')]
    """

    capacity: PositiveInt = 1_000_000
    """Transitions kept; the oldest are overwritten."""

    batch_size: PositiveInt = 256
    """Transitions sampled for one update, or slices of them."""

    storage: Literal["tensor", "memmap"] = "tensor"
    """Where transitions lie: in memory, or in memory-mapped files on disk."""

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        if self.capacity >= self.batch_size:
            return []
        text = f"must be at least batch_size ({self.batch_size}), got {self.capacity}"
        return [("capacity", text)]


@dataclass
class ReplayConfig(StorageConfig):
    """Size and place of the replay buffer, and which transitions are drawn.

    >>> ReplayConfig().prioritized
    False
    """

    slice_length: PositiveInt = 1
    """Consecutive frames of a slice, for loss.lmbda: n of them give n-step targets."""

    prioritized: bool = False
    """Draw transitions more often whose value was far off, in place of uniformly."""

    priority_alpha: NonNegativeFloat = 0.6
    """Exponent of priorities: 0 for uniform sampling, 1 in proportion to the error."""

    priority_beta: Annotated[float, Bound(ge=0, le=1)] = 0.4
    """Exponent of importance weights at first: 0 for none, 1 for a full correction."""

    priority_beta_frames: PositiveInt | None = 100_000
    """Frames over which priority_beta rises to 1, in a straight line; null for never."""

    priority_eps: PositiveFloat = 1e-6
    """Added to each priority, so that every transition is drawn at times."""

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        found = super().errors()
        if self.prioritized and self.slice_length > 1:
            text = f"must be false where slice_length is above 1 ({self.slice_length}), got true"
            found.append(("prioritized", text))
        return found
