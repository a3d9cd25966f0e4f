"""TorchRL loss modules of the soft actor-critic family."""

from rlkit_sac.objectives.continuous_sac import ContinuousSACLoss
from rlkit_sac.objectives.discrete_sac import DiscreteSACLoss
from rlkit_sac.objectives.hybrid_sac import HybridSACLoss
from rlkit_sac.objectives.value_sac import ValueSACLoss

__all__ = ["ContinuousSACLoss", "DiscreteSACLoss", "HybridSACLoss", "ValueSACLoss"]
