"""From a Gymnasium id to a TorchRL environment."""

from rlkit_sac.envs.episodes import load_episodes, save_episodes
from rlkit_sac.envs.make import check_env, closing_env, make_env
from rlkit_sac.envs.specs import (
    check_scalar_reward,
    continuous_action_bounds,
    discrete_action_count,
    has_discrete_actions,
    hybrid_action_bounds,
    observation_dim,
    parameter_mask,
    reward_dim,
)
from rlkit_sac.envs.task_spaces import describe_task
from rlkit_sac.envs.torchrl_env import GymnasiumEnvs, PreviousAction

__all__ = [
    "GymnasiumEnvs",
    "PreviousAction",
    "check_env",
    "check_scalar_reward",
    "closing_env",
    "continuous_action_bounds",
    "describe_task",
    "discrete_action_count",
    "has_discrete_actions",
    "hybrid_action_bounds",
    "load_episodes",
    "make_env",
    "observation_dim",
    "parameter_mask",
    "reward_dim",
    "save_episodes",
]
