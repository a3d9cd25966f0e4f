"""The losses of the soft actor-critic family."""

from rlkit_sac.objectives.sac.continuous_sac import ContinuousSACLoss
from rlkit_sac.objectives.sac.discrete_sac import DiscreteSACLoss
from rlkit_sac.objectives.sac.hybrid_sac import HybridSACLoss
from rlkit_sac.objectives.sac.options import SACOptions
from rlkit_sac.objectives.sac.value_sac import ValueSACLoss

__all__ = ["ContinuousSACLoss", "DiscreteSACLoss", "HybridSACLoss", "SACOptions", "ValueSACLoss"]
