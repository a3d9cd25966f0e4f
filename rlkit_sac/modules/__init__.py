"""Networks that act and can be scored."""

from rlkit_sac.modules.actors import GaussianHead, tanh_gaussian_actor
from rlkit_sac.modules.critics import state_action_critic
from rlkit_sac.modules.distributions import TanhGaussian

__all__ = ["GaussianHead", "TanhGaussian", "state_action_critic", "tanh_gaussian_actor"]
