"""Networks that act and can be scored."""

from rlkit_sac.modules.actors import categorical_actor as categorical_actor
from rlkit_sac.modules.actors import categorical_actor_critic as categorical_actor_critic
from rlkit_sac.modules.actors import gaussian_actor as gaussian_actor
from rlkit_sac.modules.actors import gaussian_actor_critic as gaussian_actor_critic
from rlkit_sac.modules.actors import tanh_gaussian_actor as tanh_gaussian_actor
from rlkit_sac.modules.behavior import ActionKind as ActionKind
from rlkit_sac.modules.behavior import BehaviorPolicy as BehaviorPolicy
from rlkit_sac.modules.behavior import RandomBehavior as RandomBehavior
from rlkit_sac.modules.boltzmann import BoltzmannPolicy as BoltzmannPolicy
from rlkit_sac.modules.critics import action_value_critic as action_value_critic
from rlkit_sac.modules.critics import hybrid_critic as hybrid_critic
from rlkit_sac.modules.critics import state_action_critic as state_action_critic
from rlkit_sac.modules.critics import state_critic as state_critic
from rlkit_sac.modules.distributions import TanhGaussian as TanhGaussian
from rlkit_sac.modules.dueling import StochasticDuelingNetwork as StochasticDuelingNetwork
from rlkit_sac.modules.encoders import EncoderOptions as EncoderOptions
from rlkit_sac.modules.encoders import observation_encoder as observation_encoder
from rlkit_sac.modules.layers import GaussianHead as GaussianHead
from rlkit_sac.modules.layers import MemoryOptions as MemoryOptions
from rlkit_sac.modules.masked_critic import MaskedCritic as MaskedCritic
from rlkit_sac.modules.memory import GRUMemory as GRUMemory
from rlkit_sac.modules.memory import LSTMMemory as LSTMMemory
from rlkit_sac.modules.memory import policy_states as policy_states
from rlkit_sac.modules.memory import state_primer as state_primer
from rlkit_sac.modules.normalization import NormalizedPolicy as NormalizedPolicy
from rlkit_sac.modules.normalization import ObservationNormalizer as ObservationNormalizer
from rlkit_sac.modules.normalization import RewardNormalizer as RewardNormalizer
from rlkit_sac.modules.priors.parts import UniformPrior as UniformPrior
from rlkit_sac.modules.priors.policy import PolicyPrior as PolicyPrior
from rlkit_sac.modules.priors.same_action import SameActionPrior as SameActionPrior
from rlkit_sac.modules.wrappers import CorrelatedNoise as CorrelatedNoise
from rlkit_sac.modules.wrappers import EpsilonGreedy as EpsilonGreedy
from rlkit_sac.modules.wrappers import PlainPolicy as PlainPolicy
from rlkit_sac.modules.wrappers import acting_policy as acting_policy

__all__ = [name for name, value in globals().items() if callable(value)]
