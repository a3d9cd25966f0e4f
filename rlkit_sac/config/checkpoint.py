"""The checkpoints of a run."""

from __future__ import annotations

from dataclasses import dataclass

from rlkit_sac.config.bounds import PositiveInt


@dataclass
class CheckpointConfig:
    """How often the whole state of a run is saved, and how many checkpoints are kept.

    >>> CheckpointConfig().keep
    2
    """

    interval: PositiveInt = 5_000
    """Frames between two checkpoints."""

    keep: PositiveInt = 2
    """Newest checkpoints kept, besides that of the best evaluation."""
