"""Equations as pure tensor functions: one idea each, importing torch only."""

from rlkit_sac.functional.action_gradient import clip_action_gradient
from rlkit_sac.functional.categorical import (
    categorical_entropy,
    categorical_kl,
    categorical_parameters,
    in_categorical_space,
)
from rlkit_sac.functional.critics import reduce_critics, weigh_rewards
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
from rlkit_sac.functional.retrace import opc_return, retrace_return
from rlkit_sac.functional.returns import soft_lambda_return, soft_td_target
from rlkit_sac.functional.surrogate import with_gradient
from rlkit_sac.functional.target_entropy import (
    continuous_target_entropy,
    discrete_target_entropy,
    negative_dimension_target_entropy,
    scaled_log_target_entropy,
)
from rlkit_sac.functional.trust_region import project_gradient

__all__ = [
    "boltzmann_log_prob",
    "categorical_entropy",
    "categorical_kl",
    "categorical_parameters",
    "clip_action_gradient",
    "continuous_target_entropy",
    "correction_weight",
    "discrete_target_entropy",
    "expected_correction",
    "expected_value",
    "gaussian_entropy",
    "gaussian_kl",
    "gaussian_kl_gradient",
    "gaussian_log_prob",
    "gaussian_parameters",
    "gaussian_score",
    "importance_ratio",
    "in_categorical_space",
    "log_importance_ratio",
    "negative_dimension_target_entropy",
    "normalized_log_prob",
    "opc_return",
    "project_gradient",
    "reduce_critics",
    "retrace_coefficient",
    "retrace_return",
    "sample_categorical",
    "scaled_log_target_entropy",
    "soft_lambda_return",
    "soft_td_target",
    "taken_value",
    "truncate_ratio",
    "weigh_rewards",
    "with_gradient",
]
