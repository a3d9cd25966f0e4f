"""The loss of actor-critic with experience replay."""

from rlkit_sac.objectives.acer.acer_loss import ACERLoss, check_trust_region_space

__all__ = ["ACERLoss", "check_trust_region_space"]
