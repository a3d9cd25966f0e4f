"""The losses of the soft actor-critic family."""

from rlkit_sac.objectives.sac.continuous_sac import ContinuousSACLoss
from rlkit_sac.objectives.sac.discrete_sac import DiscreteSACLoss
from rlkit_sac.objectives.sac.hybrid_sac import HybridSACLoss
from rlkit_sac.objectives.sac.options import (
    ContinuousSACOptions,
    DiscreteSACOptions,
    HybridSACOptions,
    SACOptions,
)

__all__ = [
    "ContinuousSACLoss",
    "ContinuousSACOptions",
    "DiscreteSACLoss",
    "DiscreteSACOptions",
    "HybridSACLoss",
    "HybridSACOptions",
    "SACOptions",
]
