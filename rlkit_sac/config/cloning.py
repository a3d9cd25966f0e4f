"""How a policy is cloned from data."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlkit_sac.config.bounds import PositiveInt, Seed, Widths
from rlkit_sac.config.collection import EnvConfig


@dataclass
class CloneConfig:
    """How `rlkit-sac clone` makes a policy.

    >>> CloneConfig().num_cells
    [256, 256]
    """

    env: EnvConfig = field(default_factory=EnvConfig)
    num_cells: Widths = field(default_factory=lambda: [256, 256])
    """Widths of the hidden layers."""

    log_std_min: float = -2.0
    """Smallest log standard deviation of continuous actions."""

    updates: PositiveInt = 5_000
    """Steps of the optimizer."""

    seed: Seed = 0
    """Of weights and batches, and of the episodes of the evaluation."""
