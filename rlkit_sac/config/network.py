"""The networks of a run, the normalization of what they read, and the prior."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from rlkit_sac.config.options import PositiveFloat, PositiveInt, UnitFloat, Widths


@dataclass
class LayersConfig:
    """Shape of each network, in every recipe.

    >>> LayersConfig(num_cells=[64, 64]).activation
    'relu'
    """

    builder: str | None = None
    """Function that makes the networks, as module:function; null for those of the package."""

    num_cells: Widths = field(default_factory=lambda: [256, 256])
    """Widths of the hidden layers."""

    activation: Literal["relu", "tanh", "elu", "silu", "gelu"] = "relu"
    """Activation function between layers."""

    encoder: Literal["auto", "none", "small", "nature", "impala"] = "auto"
    """What makes features of images: auto is nature from 36 pixels on, small below, impala is
    larger, none reads the pixels; vectors have no encoder."""

    encoder_features: PositiveInt | None = None
    """Features of each image; null for 128 of small, 512 of nature and 256 of impala."""

    memory: Literal["none", "gru", "lstm"] = "none"
    """What each network remembers earlier steps by, before its layers."""

    memory_size: PositiveInt = 64
    """Units of each layer of a memory."""

    memory_layers: Annotated[int, Field(ge=1, le=16)] = 1
    """Layers of each memory."""

    def layer_arguments(self) -> dict[str, Any]:
        """All but builder, encoder and memory, as keyword arguments of a network."""
        apart = ("builder", "encoder", "memory", "shared_encoder")
        return {name: value for name, value in asdict(self).items() if not name.startswith(apart)}


@dataclass
class NetworkConfig(LayersConfig):
    """Shape of each network, with layer normalization and dropout of the critics.

    >>> NetworkConfig(num_cells=[64, 64]).critic_layer_norm
    False
    """

    shared_encoder: bool = False
    """Actor and critics read the features of one encoder of images, which the critics alone train
    and which has no target; otherwise each network has an encoder of its own."""

    critic_keys: list[str] | None = None
    """Parts of a structured observation that critics read, and the policy need not have; null for
    what the policy observes."""

    critic_layer_norm: bool = False
    """Layer normalization of the critics' hidden layers, before the activation."""

    critic_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Dropout probability of the critics' hidden layers, in training."""

    critic_atoms: Annotated[int, Field(ge=2, le=10_000)] | None = None
    """Atoms on [-5, 5] of a distribution that describes each value, 101 as published, which needs
    normalization.rewards bounded and a small loss.alpha_init; null for plain values."""

    def actor_arguments(self) -> dict[str, Any]:
        """The keyword arguments of an actor."""
        arguments = self.layer_arguments()
        return {name: value for name, value in arguments.items() if not name.startswith("critic_")}

    def critic_arguments(self) -> dict[str, Any]:
        """The keyword arguments of a critic."""
        own = {
            name.removeprefix("critic_"): value
            for name, value in asdict(self).items()
            if name.startswith("critic_") and name != "critic_keys"
        }
        return {"num_cells": self.num_cells, "activation": self.activation, **own}


@dataclass
class GaussianHeadConfig(LayersConfig):
    """Shape of networks of which the actor has a Gaussian head.

    >>> list(GaussianHeadConfig(log_std_min=3.0).errors())
    [('log_std_min', 'must be below log_std_max (2.0), got 3.0')]
    """

    log_std_mode: Literal["clipped_exp", "tanh"] = "clipped_exp"
    """How log_std is limited to its range: clamped, or rescaled through tanh."""

    log_std_min: float = -20.0
    """Smallest log standard deviation of the actor."""

    log_std_max: float = 2.0
    """Largest log standard deviation of the actor."""

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        if self.log_std_min >= self.log_std_max:
            text = f"must be below log_std_max ({self.log_std_max}), got {self.log_std_min}"
            yield "log_std_min", text


@dataclass
class GaussianNetworkConfig(GaussianHeadConfig, NetworkConfig):
    """Shape of the critics and of an actor with a Gaussian head.

    >>> GaussianNetworkConfig(num_cells=[64, 64]).log_std_max
    2.0
    """


@dataclass
class HybridNetworkConfig(GaussianNetworkConfig):
    """Shape of critics over both parts of an action, and of an actor with a Gaussian head.

    >>> HybridNetworkConfig().critic_action_layer
    'first'
    """

    critic_action_layer: Literal["first", "last"] = "first"
    """Hidden layer of the critics that reads the continuous action; last makes critics with a mask
    quicker where there are many discrete actions."""


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

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        yield from super().errors()
        if self.shared_encoder:
            yield "shared_encoder", "must be false: a value network has an encoder of its own"


@dataclass
class NormalizationConfig:
    """Normalization by running statistics of the frames collected.

    >>> NormalizationConfig().observations
    False
    """

    observations: bool = False
    """Subtract the running mean of vectors observed, and divide by their standard deviation."""

    rewards: bool | Literal["bounded"] = False
    """Divide rewards by the running standard deviation of the discounted return; bounded takes a
    fifth of the largest return where that is more."""

    clip: PositiveFloat | None = 10.0
    """Largest absolute value of a normalized observation or reward; null for no limit."""


@dataclass
class PriorConfig:
    """The policy that the learned one is kept close to.

    >>> list(PriorConfig(kind="policy").errors())
    [('run', "must name a run directory where kind is 'policy'")]
    """

    kind: Literal["none", "uniform", "same_action", "policy", "factory"] = "uniform"
    """No prior, uniform over actions, near the previous action, the policy of a run, or a user's
    own."""

    same_action_prob: UnitFloat = 0.9
    """Weight of the previous action, for same_action."""

    same_action_noise: PositiveFloat = 0.1
    """Standard deviation around the previous action, as a share of the action's range, for
    same_action."""

    run: str | None = None
    """Run directory whose trained policy is the prior, or folder of a cloned one, for policy."""

    which: Literal["last", "best"] = "last"
    """Checkpoint of run: the newest, or that of the best evaluation."""

    factory: str | None = None
    """module:function that makes a prior for the environment, for factory."""

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        needs = {"policy": ("run", "a run directory"), "factory": ("factory", "module:function")}
        for kind, (name, what) in needs.items():
            value = getattr(self, name)
            if self.kind == kind and value is None:
                yield name, f"must name {what} where kind is {kind!r}"
            if self.kind != kind and value is not None:
                yield name, f"is for kind {kind!r}, but kind is {self.kind!r}"
