"""TorchRL loss modules: the soft actor-critic family, and actor-critic with experience replay."""

from rlkit_sac.objectives.acer.acer_loss import ACERLoss as ACERLoss
from rlkit_sac.objectives.acer.segments import ACEROptions as ACEROptions
from rlkit_sac.objectives.arguments import LossOptions as LossOptions
from rlkit_sac.objectives.arguments import SACOptions as SACOptions
from rlkit_sac.objectives.sac.continuous_sac import ContinuousSACLoss as ContinuousSACLoss
from rlkit_sac.objectives.sac.discrete_sac import DiscreteSACLoss as DiscreteSACLoss
from rlkit_sac.objectives.sac.hybrid_sac import HybridSACLoss as HybridSACLoss
from rlkit_sac.objectives.sac.value_sac import ValueSACLoss as ValueSACLoss

__all__ = [name for name, value in globals().items() if callable(value)]
