"""Equations as pure tensor functions: one idea each, importing torch only."""

from rlkit_sac.functional.action_gradient import clip_action_gradient
from rlkit_sac.functional.discrete import (
    boltzmann_log_prob,
    expected_value,
    normalized_log_prob,
    sample_categorical,
    taken_value,
)
from rlkit_sac.functional.replicas import reduce_replicas, weigh_rewards
from rlkit_sac.functional.returns import soft_lambda_return, soft_td_target
from rlkit_sac.functional.target_entropy import (
    continuous_target_entropy,
    discrete_target_entropy,
    negative_dimension_target_entropy,
    scaled_log_target_entropy,
)

__all__ = [
    "boltzmann_log_prob",
    "clip_action_gradient",
    "continuous_target_entropy",
    "discrete_target_entropy",
    "expected_value",
    "negative_dimension_target_entropy",
    "normalized_log_prob",
    "reduce_replicas",
    "sample_categorical",
    "scaled_log_target_entropy",
    "soft_lambda_return",
    "soft_td_target",
    "taken_value",
    "weigh_rewards",
]
