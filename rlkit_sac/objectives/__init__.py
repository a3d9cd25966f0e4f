"""TorchRL loss modules: the soft actor-critic family, and actor-critic with experience replay."""

from rlkit_sac.objectives.acer import ACERLoss, check_trust_region_space
from rlkit_sac.objectives.sac import (
    ContinuousSACLoss,
    DiscreteSACLoss,
    HybridSACLoss,
    SACOptions,
    ValueSACLoss,
)

__all__ = [
    "ACERLoss",
    "ContinuousSACLoss",
    "DiscreteSACLoss",
    "HybridSACLoss",
    "SACOptions",
    "ValueSACLoss",
    "check_trust_region_space",
]
