"""TorchRL loss modules of the soft actor-critic family."""

from rlkit_sac.objectives.continuous_sac import ContinuousSACLoss

__all__ = ["ContinuousSACLoss"]
