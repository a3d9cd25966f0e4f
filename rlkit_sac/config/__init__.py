"""Dataclasses of options that recipes compose; the text under a field is its ``--help``."""

from rlkit_sac.config.acer import (
    ACERCollectorConfig,
    ACERLossConfig,
    ACERNetworkConfig,
    ACERReplayConfig,
    ACERUpdateConfig,
    ACERWarmStartConfig,
)
from rlkit_sac.config.bounds import Check, PositiveInt, Seed, check_config
from rlkit_sac.config.checkpoint import CheckpointConfig
from rlkit_sac.config.collector import CollectorConfig, FramesConfig
from rlkit_sac.config.env import EnvConfig
from rlkit_sac.config.evaluation import EvaluationConfig
from rlkit_sac.config.flat import flat_config
from rlkit_sac.config.hybrid_loss import HybridLossConfig
from rlkit_sac.config.logging import LoggingConfig
from rlkit_sac.config.loss import (
    ContinuousLossConfig,
    DiscreteLossConfig,
    LossConfig,
    ReturnConfig,
    TemperatureConfig,
    ValueLossConfig,
)
from rlkit_sac.config.network import (
    GaussianHeadConfig,
    GaussianNetworkConfig,
    LayersConfig,
    NetworkConfig,
    ValueNetworkConfig,
)
from rlkit_sac.config.normalization import NormalizationConfig
from rlkit_sac.config.parse import parse_config
from rlkit_sac.config.prior import KLPriorLossConfig, PriorConfig
from rlkit_sac.config.replay import ReplayConfig, StorageConfig
from rlkit_sac.config.update import (
    DiscreteUpdateConfig,
    StepConfig,
    UpdateConfig,
    ValueUpdateConfig,
)
from rlkit_sac.config.warm_start import WarmStartConfig

__all__ = [
    "ACERCollectorConfig",
    "ACERLossConfig",
    "ACERNetworkConfig",
    "ACERReplayConfig",
    "ACERUpdateConfig",
    "ACERWarmStartConfig",
    "Check",
    "CheckpointConfig",
    "CollectorConfig",
    "ContinuousLossConfig",
    "DiscreteLossConfig",
    "DiscreteUpdateConfig",
    "EnvConfig",
    "EvaluationConfig",
    "FramesConfig",
    "GaussianHeadConfig",
    "GaussianNetworkConfig",
    "HybridLossConfig",
    "KLPriorLossConfig",
    "LayersConfig",
    "LoggingConfig",
    "LossConfig",
    "NetworkConfig",
    "NormalizationConfig",
    "PositiveInt",
    "PriorConfig",
    "ReplayConfig",
    "ReturnConfig",
    "Seed",
    "StepConfig",
    "StorageConfig",
    "TemperatureConfig",
    "UpdateConfig",
    "ValueLossConfig",
    "ValueNetworkConfig",
    "ValueUpdateConfig",
    "WarmStartConfig",
    "check_config",
    "flat_config",
    "parse_config",
]
