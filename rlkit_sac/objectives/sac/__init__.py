"""The losses of the soft actor-critic family."""

from rlkit_sac.objectives.sac.continuous_sac import ContinuousSACLoss as ContinuousSACLoss
from rlkit_sac.objectives.sac.discrete_sac import DiscreteSACLoss as DiscreteSACLoss
from rlkit_sac.objectives.sac.hybrid_sac import HybridSACLoss as HybridSACLoss
