"""Configuration dataclasses that recipes compose; the text under a field is its ``--help``."""

from rlkit_sac.training.config.checkpoint import CheckpointConfig
from rlkit_sac.training.config.collector import CollectorConfig
from rlkit_sac.training.config.env import EnvConfig
from rlkit_sac.training.config.evaluation import EvaluationConfig
from rlkit_sac.training.config.hybrid_loss import HybridLossConfig
from rlkit_sac.training.config.logging import LoggingConfig
from rlkit_sac.training.config.loss import (
    ContinuousLossConfig,
    DiscreteLossConfig,
    LossConfig,
    TemperatureConfig,
    ValueLossConfig,
)
from rlkit_sac.training.config.network import (
    GaussianNetworkConfig,
    NetworkConfig,
    ValueNetworkConfig,
)
from rlkit_sac.training.config.normalization import NormalizationConfig
from rlkit_sac.training.config.replay import ReplayConfig
from rlkit_sac.training.config.update import (
    DiscreteUpdateConfig,
    UpdateConfig,
    ValueUpdateConfig,
)
from rlkit_sac.training.config.warm_start import WarmStartConfig

__all__ = [
    "CheckpointConfig",
    "CollectorConfig",
    "ContinuousLossConfig",
    "DiscreteLossConfig",
    "DiscreteUpdateConfig",
    "EnvConfig",
    "EvaluationConfig",
    "GaussianNetworkConfig",
    "HybridLossConfig",
    "LoggingConfig",
    "LossConfig",
    "NetworkConfig",
    "NormalizationConfig",
    "ReplayConfig",
    "TemperatureConfig",
    "UpdateConfig",
    "ValueLossConfig",
    "ValueNetworkConfig",
    "ValueUpdateConfig",
    "WarmStartConfig",
]
