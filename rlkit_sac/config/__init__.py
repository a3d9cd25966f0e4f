"""Configuration dataclasses that recipes compose; the text under a field is its ``--help``."""

from rlkit_sac.training.config.acer import (
    ACERCollectorConfig,
    ACERLossConfig,
    ACERNetworkConfig,
    ACERReplayConfig,
    ACERUpdateConfig,
    ACERWarmStartConfig,
)
from rlkit_sac.training.config.checkpoint import CheckpointConfig
from rlkit_sac.training.config.collector import CollectorConfig, FramesConfig
from rlkit_sac.training.config.env import EnvConfig
from rlkit_sac.training.config.evaluation import EvaluationConfig
from rlkit_sac.training.config.hybrid_loss import HybridLossConfig
from rlkit_sac.training.config.logging import LoggingConfig
from rlkit_sac.training.config.loss import (
    ContinuousLossConfig,
    DiscreteLossConfig,
    LossConfig,
    ReturnConfig,
    TemperatureConfig,
    ValueLossConfig,
)
from rlkit_sac.training.config.network import (
    GaussianHeadConfig,
    GaussianNetworkConfig,
    LayersConfig,
    NetworkConfig,
    ValueNetworkConfig,
)
from rlkit_sac.training.config.normalization import NormalizationConfig
from rlkit_sac.training.config.replay import ReplayConfig, StorageConfig
from rlkit_sac.training.config.update import (
    DiscreteUpdateConfig,
    StepConfig,
    UpdateConfig,
    ValueUpdateConfig,
)
from rlkit_sac.training.config.warm_start import WarmStartConfig

__all__ = [
    "ACERCollectorConfig",
    "ACERLossConfig",
    "ACERNetworkConfig",
    "ACERReplayConfig",
    "ACERUpdateConfig",
    "ACERWarmStartConfig",
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
    "LayersConfig",
    "LoggingConfig",
    "LossConfig",
    "NetworkConfig",
    "NormalizationConfig",
    "ReplayConfig",
    "ReturnConfig",
    "StepConfig",
    "StorageConfig",
    "TemperatureConfig",
    "UpdateConfig",
    "ValueLossConfig",
    "ValueNetworkConfig",
    "ValueUpdateConfig",
    "WarmStartConfig",
]
