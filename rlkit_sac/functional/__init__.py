"""Equations as pure functions of tensors. This room imports only torch."""

from rlkit_sac.functional.categorical import categorical_entropy as categorical_entropy
from rlkit_sac.functional.categorical import categorical_gradient as categorical_gradient
from rlkit_sac.functional.categorical import categorical_kl as categorical_kl
from rlkit_sac.functional.categorical import categorical_parameters as categorical_parameters
from rlkit_sac.functional.discrete import boltzmann_log_prob as boltzmann_log_prob
from rlkit_sac.functional.discrete import count_allowed as count_allowed
from rlkit_sac.functional.discrete import expected_value as expected_value
from rlkit_sac.functional.discrete import mask_logits as mask_logits
from rlkit_sac.functional.discrete import normalized_log_prob as normalized_log_prob
from rlkit_sac.functional.discrete import sample_categorical as sample_categorical
from rlkit_sac.functional.discrete import taken_value as taken_value
from rlkit_sac.functional.discrete import zero_forbidden as zero_forbidden
from rlkit_sac.functional.gaussian import gaussian_entropy as gaussian_entropy
from rlkit_sac.functional.gaussian import gaussian_kl as gaussian_kl
from rlkit_sac.functional.gaussian import gaussian_kl_gradient as gaussian_kl_gradient
from rlkit_sac.functional.gaussian import gaussian_log_prob as gaussian_log_prob
from rlkit_sac.functional.gaussian import gaussian_parameters as gaussian_parameters
from rlkit_sac.functional.gaussian import gaussian_score as gaussian_score
from rlkit_sac.functional.gradients import clip_action_gradient as clip_action_gradient
from rlkit_sac.functional.gradients import replace_gradient as replace_gradient
from rlkit_sac.functional.importance import bias_correction_weight as bias_correction_weight
from rlkit_sac.functional.importance import expected_bias_correction as expected_bias_correction
from rlkit_sac.functional.importance import importance_ratio as importance_ratio
from rlkit_sac.functional.importance import log_importance_ratio as log_importance_ratio
from rlkit_sac.functional.importance import retrace_coefficient as retrace_coefficient
from rlkit_sac.functional.importance import truncate_ratio as truncate_ratio
from rlkit_sac.functional.memory import LayerWeights as LayerWeights
from rlkit_sac.functional.memory import recurrent_step as recurrent_step
from rlkit_sac.functional.memory import unroll_recurrent as unroll_recurrent
from rlkit_sac.functional.retrace import opc_return as opc_return
from rlkit_sac.functional.retrace import retrace_return as retrace_return
from rlkit_sac.functional.returns import soft_lambda_return as soft_lambda_return
from rlkit_sac.functional.sac import actor_loss as actor_loss
from rlkit_sac.functional.sac import categorical_actor_loss as categorical_actor_loss
from rlkit_sac.functional.sac import critic_loss as critic_loss
from rlkit_sac.functional.sac import entropy_bonus as entropy_bonus
from rlkit_sac.functional.sac import reduce_critics as reduce_critics
from rlkit_sac.functional.sac import soft_td_target as soft_td_target
from rlkit_sac.functional.sac import soft_value as soft_value
from rlkit_sac.functional.sac import td_error as td_error
from rlkit_sac.functional.sac import temperature_loss as temperature_loss
from rlkit_sac.functional.sac import value_loss as value_loss
from rlkit_sac.functional.sac import weigh_rewards as weigh_rewards
from rlkit_sac.functional.statistics import explained_variance as explained_variance
from rlkit_sac.functional.statistics import masked_mean as masked_mean
from rlkit_sac.functional.target_entropy import (
    continuous_target_entropy as continuous_target_entropy,
)
from rlkit_sac.functional.target_entropy import discrete_target_entropy as discrete_target_entropy
from rlkit_sac.functional.target_entropy import (
    negative_dimension_target_entropy as negative_dimension_target_entropy,
)
from rlkit_sac.functional.target_entropy import (
    scaled_log_target_entropy as scaled_log_target_entropy,
)
from rlkit_sac.functional.trust_region import project_gradient as project_gradient
from rlkit_sac.functional.value_distribution import atom_cross_entropy as atom_cross_entropy
from rlkit_sac.functional.value_distribution import clipped_share as clipped_share
from rlkit_sac.functional.value_distribution import mean_over_atoms as mean_over_atoms
from rlkit_sac.functional.value_distribution import project_onto_atoms as project_onto_atoms
from rlkit_sac.functional.value_distribution import value_atoms as value_atoms

__all__ = [name for name, value in globals().items() if callable(value)]
