"""Priors: policies that the learned policy is regularized towards."""

from rlkit_sac.modules.priors.policy import PolicyPrior
from rlkit_sac.modules.priors.same_action import SameActionPrior
from rlkit_sac.modules.priors.uniform import UniformPrior

__all__ = ["PolicyPrior", "SameActionPrior", "UniformPrior"]
