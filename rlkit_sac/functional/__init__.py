"""Equations as pure functions of tensors, which import torch only."""

from rlkit_sac.functional.action_gradient import clip_action_gradient
from rlkit_sac.functional.categorical import (
    categorical_entropy,
    categorical_kl,
    categorical_parameters,
    in_categorical_space,
)
from rlkit_sac.functional.discrete import (
    boltzmann_log_prob,
    expected_value,
    normalized_log_prob,
    sample_categorical,
    taken_value,
)
from rlkit_sac.functional.gaussian import (
    gaussian_entropy,
    gaussian_kl,
    gaussian_kl_gradient,
    gaussian_log_prob,
    gaussian_parameters,
    gaussian_score,
)
from rlkit_sac.functional.importance import (
    correction_weight,
    expected_correction,
    importance_ratio,
    log_importance_ratio,
    retrace_coefficient,
    truncate_ratio,
)
from rlkit_sac.functional.memory import LayerWeights, recurrent_rows, recurrent_step
from rlkit_sac.functional.retrace import opc_return, retrace_return
from rlkit_sac.functional.returns import soft_lambda_return
from rlkit_sac.functional.sac import (
    actor_loss,
    categorical_actor_loss,
    critic_loss,
    entropy_bonus,
    reduce_critics,
    soft_td_target,
    soft_value,
    td_error,
    temperature_loss,
    value_loss,
    weigh_rewards,
)
from rlkit_sac.functional.statistics import explained_variance, masked_mean
from rlkit_sac.functional.surrogate import with_gradient
from rlkit_sac.functional.target_entropy import (
    continuous_target_entropy,
    discrete_target_entropy,
    negative_dimension_target_entropy,
    scaled_log_target_entropy,
)
from rlkit_sac.functional.trust_region import project_gradient

__all__ = [
    "LayerWeights",
    "actor_loss",
    "boltzmann_log_prob",
    "categorical_actor_loss",
    "categorical_entropy",
    "categorical_kl",
    "categorical_parameters",
    "clip_action_gradient",
    "continuous_target_entropy",
    "correction_weight",
    "critic_loss",
    "discrete_target_entropy",
    "entropy_bonus",
    "expected_correction",
    "expected_value",
    "explained_variance",
    "gaussian_entropy",
    "gaussian_kl",
    "gaussian_kl_gradient",
    "gaussian_log_prob",
    "gaussian_parameters",
    "gaussian_score",
    "importance_ratio",
    "in_categorical_space",
    "log_importance_ratio",
    "masked_mean",
    "negative_dimension_target_entropy",
    "normalized_log_prob",
    "opc_return",
    "project_gradient",
    "recurrent_rows",
    "recurrent_step",
    "reduce_critics",
    "retrace_coefficient",
    "retrace_return",
    "sample_categorical",
    "scaled_log_target_entropy",
    "soft_lambda_return",
    "soft_td_target",
    "soft_value",
    "taken_value",
    "td_error",
    "temperature_loss",
    "truncate_ratio",
    "value_loss",
    "weigh_rewards",
    "with_gradient",
]
