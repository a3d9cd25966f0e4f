"""Normalization of observations and rewards."""

from __future__ import annotations

from dataclasses import dataclass

from rlkit_sac.config.bounds import PositiveFloat


@dataclass
class NormalizationConfig:
    """Normalization by running statistics of the frames collected.

    >>> NormalizationConfig().observations
    False
    """

    observations: bool = False
    """Subtract the running mean of observations, and divide by their standard deviation."""

    rewards: bool = False
    """Divide rewards by the running standard deviation of the discounted return."""

    clip: PositiveFloat = 10.0
    """Largest absolute value of a normalized observation or reward."""
