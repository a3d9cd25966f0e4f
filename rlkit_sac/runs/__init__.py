"""What every recipe shares: configuration, run directory, update, evaluation, logs, checkpoints."""

from rlkit_sac.training.bounds import Check, PositiveInt, Seed, check_config
from rlkit_sac.training.checkpoints import Checkpoints
from rlkit_sac.training.compile_from import first_compiled_update
from rlkit_sac.training.config import (
    ACERCollectorConfig,
    ACERLossConfig,
    ACERNetworkConfig,
    ACERReplayConfig,
    ACERUpdateConfig,
    ACERWarmStartConfig,
    CheckpointConfig,
    CollectorConfig,
    ContinuousLossConfig,
    DiscreteLossConfig,
    DiscreteUpdateConfig,
    EnvConfig,
    EvaluationConfig,
    GaussianNetworkConfig,
    HybridLossConfig,
    LoggingConfig,
    LossConfig,
    NetworkConfig,
    NormalizationConfig,
    ReplayConfig,
    UpdateConfig,
    ValueLossConfig,
    ValueNetworkConfig,
    ValueUpdateConfig,
    WarmStartConfig,
)
from rlkit_sac.training.devices import resolve_device
from rlkit_sac.training.evaluation import EvaluationResult, evaluate
from rlkit_sac.training.flat import flat_config
from rlkit_sac.training.interrupts import deferred_signals
from rlkit_sac.training.launch import run_recipe
from rlkit_sac.training.log import TrainingLog
from rlkit_sac.training.make_acer_update import make_acer_update
from rlkit_sac.training.make_update import make_update
from rlkit_sac.training.normalizers import make_normalizers
from rlkit_sac.training.parse import parse_config
from rlkit_sac.training.policy_files import load_policy, policy_files, save_policy
from rlkit_sac.training.preflight import standard_checks
from rlkit_sac.training.prior import KLPriorLossConfig, PriorConfig, check_prior, make_prior
from rlkit_sac.training.progress import ProgressBar
from rlkit_sac.training.random_streams import evaluation_seed, seed_everything
from rlkit_sac.training.report import report
from rlkit_sac.training.resume import begin_run, check_resume, open_run
from rlkit_sac.training.run_config import BaseRunConfig, RunConfig, opened_envs
from rlkit_sac.training.run_directory import RunDirectory
from rlkit_sac.training.schedule import Every, ReplaySchedule, UpdateSchedule
from rlkit_sac.training.steps import LossStep, TargetStep
from rlkit_sac.training.training_run import TrainingRun, training_run
from rlkit_sac.training.update import Update
from rlkit_sac.training.warm_start import check_warm_start, warm_start

__all__ = [
    "ACERCollectorConfig",
    "ACERLossConfig",
    "ACERNetworkConfig",
    "ACERReplayConfig",
    "ACERUpdateConfig",
    "ACERWarmStartConfig",
    "BaseRunConfig",
    "Check",
    "CheckpointConfig",
    "Checkpoints",
    "CollectorConfig",
    "ContinuousLossConfig",
    "DiscreteLossConfig",
    "DiscreteUpdateConfig",
    "EnvConfig",
    "EvaluationConfig",
    "EvaluationResult",
    "Every",
    "GaussianNetworkConfig",
    "HybridLossConfig",
    "KLPriorLossConfig",
    "LoggingConfig",
    "LossConfig",
    "LossStep",
    "NetworkConfig",
    "NormalizationConfig",
    "PositiveInt",
    "PriorConfig",
    "ProgressBar",
    "ReplayConfig",
    "ReplaySchedule",
    "RunConfig",
    "RunDirectory",
    "Seed",
    "TargetStep",
    "TrainingLog",
    "TrainingRun",
    "Update",
    "UpdateConfig",
    "UpdateSchedule",
    "ValueLossConfig",
    "ValueNetworkConfig",
    "ValueUpdateConfig",
    "WarmStartConfig",
    "begin_run",
    "check_config",
    "check_prior",
    "check_resume",
    "check_warm_start",
    "deferred_signals",
    "evaluate",
    "evaluation_seed",
    "first_compiled_update",
    "flat_config",
    "load_policy",
    "make_acer_update",
    "make_normalizers",
    "make_prior",
    "make_update",
    "open_run",
    "opened_envs",
    "parse_config",
    "policy_files",
    "report",
    "resolve_device",
    "run_recipe",
    "save_policy",
    "seed_everything",
    "standard_checks",
    "training_run",
    "warm_start",
]
