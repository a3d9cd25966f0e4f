"""From a Gymnasium id to a TorchRL environment."""

from rlkit_sac.envs.episode_state import (
    SavedEpisodes,
    can_save_episodes,
    load_episodes,
    save_episodes,
)
from rlkit_sac.envs.make import check_env, closing, make_env
from rlkit_sac.envs.plain import PlainEnvs
from rlkit_sac.envs.previous_action import PreviousAction
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

__all__ = [
    "PlainEnvs",
    "PreviousAction",
    "SavedEpisodes",
    "can_save_episodes",
    "check_env",
    "check_scalar_reward",
    "closing",
    "continuous_action_bounds",
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
