"""TorchRL environments from Gymnasium ids, with their specs, tasks and seeds."""

from rlkit_sac.envs.frame_stack import FrameStack as FrameStack
from rlkit_sac.envs.goals import goal_arguments as goal_arguments
from rlkit_sac.envs.make import check_env as check_env
from rlkit_sac.envs.make import closing_env as closing_env
from rlkit_sac.envs.make import make_env as make_env
from rlkit_sac.envs.specs import action_mask_key as action_mask_key
from rlkit_sac.envs.specs import check_scalar_reward as check_scalar_reward
from rlkit_sac.envs.specs import continuous_action_bounds as continuous_action_bounds
from rlkit_sac.envs.specs import critic_layout as critic_layout
from rlkit_sac.envs.specs import describe_task as describe_task
from rlkit_sac.envs.specs import discrete_action_count as discrete_action_count
from rlkit_sac.envs.specs import has_discrete_actions as has_discrete_actions
from rlkit_sac.envs.specs import hybrid_action_bounds as hybrid_action_bounds
from rlkit_sac.envs.specs import observation_dim as observation_dim
from rlkit_sac.envs.specs import observation_layout as observation_layout
from rlkit_sac.envs.specs import parameter_mask as parameter_mask
from rlkit_sac.envs.specs import reward_dim as reward_dim
from rlkit_sac.envs.torchrl_env import PreviousAction as PreviousAction
from rlkit_sac.envs.torchrl_env import load_episodes as load_episodes
from rlkit_sac.envs.torchrl_env import save_episodes as save_episodes

__all__ = [name for name, value in globals().items() if callable(value)]
