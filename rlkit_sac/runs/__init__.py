"""The parts that recipes share: environments, tables, evaluation, checkpoints, seeds."""

from rlkit_sac.config.run import BaseRunConfig as BaseRunConfig
from rlkit_sac.config.run import RunConfig as RunConfig
from rlkit_sac.runs.build import Parts as Parts
from rlkit_sac.runs.build import limit_episodes as limit_episodes
from rlkit_sac.runs.build import make_envs as make_envs
from rlkit_sac.runs.build import make_run_collector as make_run_collector
from rlkit_sac.runs.build import parameter_groups as parameter_groups
from rlkit_sac.runs.build import update_steps as update_steps
from rlkit_sac.runs.checkpoint import Checkpoint as Checkpoint
from rlkit_sac.runs.directory import RunDirectory as RunDirectory
from rlkit_sac.runs.evaluation import EvaluationResult as EvaluationResult
from rlkit_sac.runs.evaluation import evaluate as evaluate
from rlkit_sac.runs.evaluation import evaluation_seed as evaluation_seed
from rlkit_sac.runs.evaluation import seed_everything as seed_everything
from rlkit_sac.runs.export import export_policy as export_policy
from rlkit_sac.runs.launch import Session as Session
from rlkit_sac.runs.launch import read_config as read_config
from rlkit_sac.runs.launch import run_recipe as run_recipe
from rlkit_sac.runs.machine import first_compiled_update as first_compiled_update
from rlkit_sac.runs.machine import learner_group as learner_group
from rlkit_sac.runs.machine import resolve_device as resolve_device
from rlkit_sac.runs.networks import build_network as build_network
from rlkit_sac.runs.networks import critic_inputs as critic_inputs
from rlkit_sac.runs.networks import make_normalizers as make_normalizers
from rlkit_sac.runs.networks import memory_options as memory_options
from rlkit_sac.runs.networks import observation_inputs as observation_inputs
from rlkit_sac.runs.networks import shared_encoder as shared_encoder
from rlkit_sac.runs.policy import load_policy as load_policy
from rlkit_sac.runs.policy import save_policy as save_policy
from rlkit_sac.runs.pretrained import warm_start as warm_start
from rlkit_sac.runs.prior import make_prior as make_prior
from rlkit_sac.runs.replay import check_prior_data as check_prior_data
from rlkit_sac.runs.replay import make_replay as make_replay
from rlkit_sac.runs.replay import read_prior_data as read_prior_data
from rlkit_sac.runs.replay import stored_keys as stored_keys
from rlkit_sac.runs.run import TrainingRun as TrainingRun
from rlkit_sac.runs.run import training_run as training_run
from rlkit_sac.runs.saving import Checkpoints as Checkpoints
from rlkit_sac.runs.video import record_run as record_run
from rlkit_sac.runs.video import record_video as record_video

__all__ = [name for name, value in globals().items() if callable(value)]
