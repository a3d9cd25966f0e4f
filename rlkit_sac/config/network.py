"""The networks of a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from rlkit_sac.config.bounds import Bound, PositiveFloat, PositiveInt


@dataclass
class LayersConfig:
    """Shape of each network, in every recipe.

    >>> LayersConfig(num_cells=[64, 64]).activation
    'relu'
    """

    num_cells: list[PositiveInt] = field(default_factory=lambda: [256, 256])
    """Widths of the hidden layers."""

    activation: Literal["relu", "tanh", "elu", "silu", "gelu"] = "relu"
    """Activation function between layers."""


@dataclass
class NetworkConfig(LayersConfig):
    """Shape of each network, with layer normalization and dropout of the critics.

    >>> NetworkConfig(num_cells=[64, 64]).critic_layer_norm
    False
    """

    critic_layer_norm: bool = False
    """Layer normalization of the critics' hidden layers, before the activation."""

    critic_dropout: Annotated[float, Bound(ge=0, lt=1)] = 0.0
    """Dropout probability of the critics' hidden layers, in training."""

    def actor_arguments(self) -> dict[str, Any]:
        """The keyword arguments of an actor."""
        arguments = asdict(self)
        del arguments["critic_layer_norm"], arguments["critic_dropout"]
        return arguments

    def critic_arguments(self) -> dict[str, Any]:
        """The keyword arguments of a critic."""
        return {
            "num_cells": self.num_cells,
            "activation": self.activation,
            "layer_norm": self.critic_layer_norm,
            "dropout": self.critic_dropout,
        }


@dataclass
class GaussianHeadConfig(LayersConfig):
    """Shape of networks of which the actor has a Gaussian head.

    >>> GaussianHeadConfig(log_std_min=3.0).errors()
    [('log_std_min', 'must be below log_std_max (2.0), got 3.0')]
    """

    log_std_mode: Literal["clipped_exp", "tanh"] = "clipped_exp"
    """How log_std is limited to its range: clamped, or rescaled through tanh."""

    log_std_min: float = -20.0
    """Smallest log standard deviation of the actor."""

    log_std_max: float = 2.0
    """Largest log standard deviation of the actor."""

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        if self.log_std_min < self.log_std_max:
            return []
        text = f"must be below log_std_max ({self.log_std_max}), got {self.log_std_min}"
        return [("log_std_min", text)]


@dataclass
class GaussianNetworkConfig(GaussianHeadConfig, NetworkConfig):
    """Shape of the critics and of an actor with a Gaussian head.

    >>> GaussianNetworkConfig(num_cells=[64, 64]).log_std_max
    2.0
    """


@dataclass
class ValueNetworkConfig(GaussianNetworkConfig):
    """Shape of actor, critics and value network.

    >>> ValueNetworkConfig().tanh_loc
    False
    """

    tanh_loc: bool = False
    """Limit the mean of the Gaussian to [-1, 1] by a tanh."""

    output_init: PositiveFloat | None = None
    """Last layers are initialized uniformly within this bound; null for PyTorch's default."""
