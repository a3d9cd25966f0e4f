"""What recipes share beside their loop: checks, tables, evaluation, checkpoints, seeds."""

from rlkit_sac.runs.checkpoints import Checkpoints
from rlkit_sac.runs.checkpoints.resume import begin_run, check_resume, open_run
from rlkit_sac.runs.checkpoints.warm_start import check_warm_start, warm_start
from rlkit_sac.runs.devices import first_compiled_update, resolve_device
from rlkit_sac.runs.evaluation import EvaluationResult, evaluate
from rlkit_sac.runs.interrupts import deferred_signals
from rlkit_sac.runs.launch import read_config, run_recipe
from rlkit_sac.runs.normalizers import make_normalizers
from rlkit_sac.runs.policies import load_policy, policy_files, save_policy
from rlkit_sac.runs.prior import check_prior, check_prior_source, make_prior
from rlkit_sac.runs.random_streams import evaluation_seed, seed_everything
from rlkit_sac.runs.run_config import BaseRunConfig, RunConfig, make_envs
from rlkit_sac.runs.tables import ProgressBar, RunDirectory, TrainingLog, report
from rlkit_sac.runs.task_facts import TaskFacts
from rlkit_sac.runs.training_run import TrainingRun, training_run
from rlkit_sac.runs.update_steps import parameter_groups, update_steps

__all__ = [
    "BaseRunConfig",
    "Checkpoints",
    "EvaluationResult",
    "ProgressBar",
    "RunConfig",
    "RunDirectory",
    "TaskFacts",
    "TrainingLog",
    "TrainingRun",
    "begin_run",
    "check_prior",
    "check_prior_source",
    "check_resume",
    "check_warm_start",
    "deferred_signals",
    "evaluate",
    "evaluation_seed",
    "first_compiled_update",
    "load_policy",
    "make_envs",
    "make_normalizers",
    "make_prior",
    "open_run",
    "parameter_groups",
    "policy_files",
    "read_config",
    "report",
    "resolve_device",
    "run_recipe",
    "save_policy",
    "seed_everything",
    "training_run",
    "update_steps",
    "warm_start",
]
