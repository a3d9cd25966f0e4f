"""TorchRL loss modules: the soft actor-critic family, and actor-critic with experience replay."""

from rlkit_sac.objectives.acer import ACERLoss, check_trust_region_space
from rlkit_sac.objectives.continuous_sac import ContinuousSACLoss
from rlkit_sac.objectives.discrete_sac import DiscreteSACLoss
from rlkit_sac.objectives.hybrid_sac import HybridSACLoss
from rlkit_sac.objectives.value_sac import ValueSACLoss

__all__ = [
    "ACERLoss",
    "ContinuousSACLoss",
    "DiscreteSACLoss",
    "HybridSACLoss",
    "ValueSACLoss",
    "check_trust_region_space",
]
