"""TorchRL loss modules: the soft actor-critic family, and actor-critic with experience replay."""

from rlkit_sac.objectives.acer import ACERLoss as ACERLoss
from rlkit_sac.objectives.acer import ACEROptions as ACEROptions
from rlkit_sac.objectives.acer import check_trust_region_space as check_trust_region_space
from rlkit_sac.objectives.arguments import LossOptions as LossOptions
from rlkit_sac.objectives.arguments import SACOptions as SACOptions
from rlkit_sac.objectives.sac import ContinuousSACLoss as ContinuousSACLoss
from rlkit_sac.objectives.sac import DiscreteSACLoss as DiscreteSACLoss
from rlkit_sac.objectives.sac import HybridSACLoss as HybridSACLoss
