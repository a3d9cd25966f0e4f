"""Networks that act and can be scored."""

from rlkit_sac.modules.actors import (
    categorical_actor,
    categorical_actor_critic,
    gaussian_actor,
    gaussian_actor_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.modules.behavior import ActionKind, BehaviorPolicy, RandomBehavior
from rlkit_sac.modules.boltzmann import BoltzmannPolicy
from rlkit_sac.modules.critics import (
    action_value_critic,
    hybrid_critic,
    state_action_critic,
    state_critic,
)
from rlkit_sac.modules.distributions import TanhGaussian
from rlkit_sac.modules.dueling import StochasticDuelingNetwork
from rlkit_sac.modules.ensemble import CriticEnsemble
from rlkit_sac.modules.masked_critic import MaskedCritic
from rlkit_sac.modules.memory import GRUMemory, LSTMMemory, policy_states, state_primer
from rlkit_sac.modules.normalization import (
    NormalizedPolicy,
    ObservationNormalizer,
    RewardNormalizer,
)
from rlkit_sac.modules.perceptron import GaussianHead
from rlkit_sac.modules.priors.parts import UniformPrior
from rlkit_sac.modules.priors.policy import PolicyPrior
from rlkit_sac.modules.priors.same_action import SameActionPrior
from rlkit_sac.modules.recurrent import MemoryOptions
from rlkit_sac.modules.wrappers import EpsilonGreedy, PlainPolicy

__all__ = [
    "ActionKind",
    "BehaviorPolicy",
    "BoltzmannPolicy",
    "CriticEnsemble",
    "EpsilonGreedy",
    "GRUMemory",
    "GaussianHead",
    "LSTMMemory",
    "MaskedCritic",
    "MemoryOptions",
    "NormalizedPolicy",
    "ObservationNormalizer",
    "PlainPolicy",
    "PolicyPrior",
    "RandomBehavior",
    "RewardNormalizer",
    "SameActionPrior",
    "StochasticDuelingNetwork",
    "TanhGaussian",
    "UniformPrior",
    "action_value_critic",
    "categorical_actor",
    "categorical_actor_critic",
    "gaussian_actor",
    "gaussian_actor_critic",
    "hybrid_critic",
    "policy_states",
    "state_action_critic",
    "state_critic",
    "state_primer",
    "tanh_gaussian_actor",
]
