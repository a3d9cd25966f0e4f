"""Dataclasses of options that recipes compose; the text under a field is its ``--help``."""

from rlkit_sac.config.acer import ACERCollectorConfig as ACERCollectorConfig
from rlkit_sac.config.acer import ACERLossConfig as ACERLossConfig
from rlkit_sac.config.acer import ACERNetworkConfig as ACERNetworkConfig
from rlkit_sac.config.acer import ACERReplayConfig as ACERReplayConfig
from rlkit_sac.config.acer import ACERUpdateConfig as ACERUpdateConfig
from rlkit_sac.config.acer import ACERWarmStartConfig as ACERWarmStartConfig
from rlkit_sac.config.collection import BaseCollectorConfig as BaseCollectorConfig
from rlkit_sac.config.collection import BaseReplayConfig as BaseReplayConfig
from rlkit_sac.config.collection import CollectorConfig as CollectorConfig
from rlkit_sac.config.collection import EnvConfig as EnvConfig
from rlkit_sac.config.collection import ReplayConfig as ReplayConfig
from rlkit_sac.config.collection import WorkersConfig as WorkersConfig
from rlkit_sac.config.loss import BaseLossConfig as BaseLossConfig
from rlkit_sac.config.loss import ContinuousLossConfig as ContinuousLossConfig
from rlkit_sac.config.loss import DiscreteLossConfig as DiscreteLossConfig
from rlkit_sac.config.loss import HybridLossConfig as HybridLossConfig
from rlkit_sac.config.loss import LossConfig as LossConfig
from rlkit_sac.config.loss import PlainContinuousLossConfig as PlainContinuousLossConfig
from rlkit_sac.config.loss import PlainDiscreteLossConfig as PlainDiscreteLossConfig
from rlkit_sac.config.loss import TemperatureConfig as TemperatureConfig
from rlkit_sac.config.network import BaseNetworkConfig as BaseNetworkConfig
from rlkit_sac.config.network import GaussianNetworkConfig as GaussianNetworkConfig
from rlkit_sac.config.network import HybridNetworkConfig as HybridNetworkConfig
from rlkit_sac.config.network import NetworkConfig as NetworkConfig
from rlkit_sac.config.network import NormalizationConfig as NormalizationConfig
from rlkit_sac.config.network import PriorConfig as PriorConfig
from rlkit_sac.config.network import ValueNetworkConfig as ValueNetworkConfig
from rlkit_sac.config.options import PositiveInt as PositiveInt
from rlkit_sac.config.options import Seed as Seed
from rlkit_sac.config.read import parse_config as parse_config
from rlkit_sac.config.run import BaseRunConfig as BaseRunConfig
from rlkit_sac.config.run import CheckpointConfig as CheckpointConfig
from rlkit_sac.config.run import EvaluationConfig as EvaluationConfig
from rlkit_sac.config.run import LoggingConfig as LoggingConfig
from rlkit_sac.config.run import RunConfig as RunConfig
from rlkit_sac.config.run import WarmStartConfig as WarmStartConfig
from rlkit_sac.config.update import BaseUpdateConfig as BaseUpdateConfig
from rlkit_sac.config.update import DiscreteUpdateConfig as DiscreteUpdateConfig
from rlkit_sac.config.update import UpdateConfig as UpdateConfig
from rlkit_sac.config.update import ValueUpdateConfig as ValueUpdateConfig

__all__ = [name for name, value in globals().items() if callable(value)]
