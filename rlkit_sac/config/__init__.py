"""Dataclasses of options that recipes compose; the text under a field is its ``--help``."""

from rlkit_sac.config.acer import (
    ACERCollectorConfig,
    ACERLossConfig,
    ACERNetworkConfig,
    ACERReplayConfig,
    ACERUpdateConfig,
    ACERWarmStartConfig,
)
from rlkit_sac.config.bounds import PositiveInt, Seed
from rlkit_sac.config.collection import (
    CollectorConfig,
    EnvConfig,
    FramesConfig,
    ReplayConfig,
    StorageConfig,
)
from rlkit_sac.config.conditions import Check
from rlkit_sac.config.loss import (
    ContinuousLossConfig,
    DiscreteLossConfig,
    HybridLossConfig,
    KLPriorLossConfig,
    LossConfig,
    ReturnConfig,
    TemperatureConfig,
)
from rlkit_sac.config.network import (
    GaussianNetworkConfig,
    HybridNetworkConfig,
    LayersConfig,
    NetworkConfig,
    NormalizationConfig,
    PriorConfig,
    ValueNetworkConfig,
)
from rlkit_sac.config.read import parse_config
from rlkit_sac.config.run import CheckpointConfig, EvaluationConfig, LoggingConfig, WarmStartConfig
from rlkit_sac.config.update import (
    DiscreteUpdateConfig,
    StepConfig,
    UpdateConfig,
    ValueUpdateConfig,
)
from rlkit_sac.config.workers import WorkersConfig

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
    "GaussianNetworkConfig",
    "HybridLossConfig",
    "HybridNetworkConfig",
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
    "ValueNetworkConfig",
    "ValueUpdateConfig",
    "WarmStartConfig",
    "WorkersConfig",
    "parse_config",
]
