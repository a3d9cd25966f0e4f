"""The loss of actor-critic with experience replay."""

from rlkit_sac.objectives.acer.acer_loss import ACERLoss as ACERLoss
from rlkit_sac.objectives.acer.acer_loss import ACEROptions as ACEROptions
from rlkit_sac.objectives.acer.acer_loss import check_trust_region_space as check_trust_region_space
