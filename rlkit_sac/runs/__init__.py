"""What recipes share beside their loop: checks, tables, evaluation, checkpoints, seeds."""

from rlkit_sac.runs.checkpoints import Checkpoints
from rlkit_sac.runs.checkpoints.resume import warm_start
from rlkit_sac.runs.collection import run_collector
from rlkit_sac.runs.devices import first_compiled_update, resolve_device
from rlkit_sac.runs.evaluation import EvaluationResult, evaluate
from rlkit_sac.runs.launch import read_config, run_recipe
from rlkit_sac.runs.loss_parts import (
    check_prior,
    check_prior_source,
    make_normalizers,
    make_prior,
    memory_options,
)
from rlkit_sac.runs.policies.export import export_policy
from rlkit_sac.runs.policies.files import load_policy, save_policy
from rlkit_sac.runs.preflight import TaskFacts
from rlkit_sac.runs.random_streams import evaluation_seed, seed_everything
from rlkit_sac.runs.ranks import learner_group
from rlkit_sac.runs.run_config import BaseRunConfig, RunConfig, make_envs
from rlkit_sac.runs.tables.report import report
from rlkit_sac.runs.tables.run_directory import RunDirectory
from rlkit_sac.runs.training_run import TrainingRun, training_run
from rlkit_sac.runs.update_steps import parameter_groups, update_steps
from rlkit_sac.runs.video import record_run, record_video

__all__ = [
    "BaseRunConfig",
    "Checkpoints",
    "EvaluationResult",
    "RunConfig",
    "RunDirectory",
    "TaskFacts",
    "TrainingRun",
    "check_prior",
    "check_prior_source",
    "evaluate",
    "evaluation_seed",
    "export_policy",
    "first_compiled_update",
    "learner_group",
    "load_policy",
    "make_envs",
    "make_normalizers",
    "make_prior",
    "memory_options",
    "parameter_groups",
    "read_config",
    "record_run",
    "record_video",
    "report",
    "resolve_device",
    "run_collector",
    "run_recipe",
    "save_policy",
    "seed_everything",
    "training_run",
    "update_steps",
    "warm_start",
]
