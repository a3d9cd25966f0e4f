"""What every recipe shares: configuration, run directory, update, evaluation, logs, policies."""

from rlkit_sac.training.bounds import PositiveInt, Seed
from rlkit_sac.training.config import (
    CollectorConfig,
    EnvConfig,
    EvaluationConfig,
    LoggingConfig,
    LossConfig,
    NetworkConfig,
    ReplayConfig,
    UpdateConfig,
)
from rlkit_sac.training.devices import evaluation_seed, resolve_device, seed_everything
from rlkit_sac.training.evaluation import EvaluationResult, evaluate
from rlkit_sac.training.launch import run_recipe
from rlkit_sac.training.log import TrainingLog
from rlkit_sac.training.make_update import make_update
from rlkit_sac.training.parse import parse_config
from rlkit_sac.training.policy_files import load_policy, save_policy
from rlkit_sac.training.progress import ProgressBar
from rlkit_sac.training.report import report
from rlkit_sac.training.run_directory import RunDirectory
from rlkit_sac.training.schedule import Every, UpdateSchedule
from rlkit_sac.training.update import LossStep, TargetStep, Update

__all__ = [
    "CollectorConfig",
    "EnvConfig",
    "EvaluationConfig",
    "EvaluationResult",
    "Every",
    "LoggingConfig",
    "LossConfig",
    "LossStep",
    "NetworkConfig",
    "PositiveInt",
    "ProgressBar",
    "ReplayConfig",
    "RunDirectory",
    "Seed",
    "TargetStep",
    "TrainingLog",
    "Update",
    "UpdateConfig",
    "UpdateSchedule",
    "evaluate",
    "evaluation_seed",
    "load_policy",
    "make_update",
    "parse_config",
    "report",
    "resolve_device",
    "run_recipe",
    "save_policy",
    "seed_everything",
]
