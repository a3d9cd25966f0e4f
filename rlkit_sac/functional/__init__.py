"""Equations as pure tensor functions: one idea each, importing torch only."""

from rlkit_sac.functional.action_gradient import clip_action_gradient
from rlkit_sac.functional.replicas import reduce_replicas, weigh_rewards
from rlkit_sac.functional.returns import soft_lambda_return, soft_td_target
from rlkit_sac.functional.target_entropy import (
    continuous_target_entropy,
    negative_dimension_target_entropy,
)

__all__ = [
    "clip_action_gradient",
    "continuous_target_entropy",
    "negative_dimension_target_entropy",
    "reduce_replicas",
    "soft_lambda_return",
    "soft_td_target",
    "weigh_rewards",
]
