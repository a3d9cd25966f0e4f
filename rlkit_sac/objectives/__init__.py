"""TorchRL loss modules: the soft actor-critic family, and actor-critic with experience replay."""

from rlkit_sac.objectives.acer import ACERLoss, check_trust_region_space
from rlkit_sac.objectives.sac import (
    ContinuousSACLoss,
    ContinuousSACOptions,
    DiscreteSACLoss,
    DiscreteSACOptions,
    HybridSACLoss,
    HybridSACOptions,
    SACOptions,
)

__all__ = [
    "ACERLoss",
    "ContinuousSACLoss",
    "ContinuousSACOptions",
    "DiscreteSACLoss",
    "DiscreteSACOptions",
    "HybridSACLoss",
    "HybridSACOptions",
    "SACOptions",
    "check_trust_region_space",
]
