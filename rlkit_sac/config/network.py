"""Options of the networks, of normalization, and of the prior."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from rlkit_sac.config.options import PositiveFloat, PositiveInt, UnitFloat, Widths


@dataclass
class BaseNetworkConfig:
    """The layers of each network, in every recipe.

    >>> BaseNetworkConfig(num_cells=[64, 64]).activation
    'relu'
    """

    builder: str | None = None
    """Function that makes the networks, as module:function; null for the package's networks."""

    num_cells: Widths = field(default_factory=lambda: [256, 256])
    """Widths of the hidden layers."""

    activation: Literal["relu", "tanh", "elu", "silu", "gelu"] = "relu"
    """Activation function between layers."""

    encoder: Literal["auto", "none", "small", "nature", "impala"] = "auto"
    """Encoder of images: auto is nature from 36 pixels on and small below, impala is larger, none
    reads the pixels. Vectors have no encoder."""

    encoder_features: PositiveInt | None = None
    """Number of features of each image; null for 128 (small), 512 (nature) or 256 (impala)."""

    memory: Literal["none", "gru", "lstm"] = "none"
    """Memory of earlier steps: recurrent layers before the layers of each network."""

    memory_size: PositiveInt = 64
    """Number of units in each layer of a memory."""

    memory_layers: Annotated[int, Field(ge=1, le=16)] = 1
    """Number of layers in each memory."""

    def actor_arguments(self, *omitted: str) -> dict[str, Any]:
        """Return the keyword arguments of an actor.

        Args:
            omitted: beginnings of the names of options to leave out, besides those of the builder,
                encoder, memory and critics.
        """
        others = ("builder", "encoder", "memory", "shared_", "critic_", "num_samples", *omitted)
        return {name: value for name, value in asdict(self).items() if not name.startswith(others)}

    def critic_arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of a critic."""
        options = {
            name.removeprefix("critic_"): value
            for name, value in asdict(self).items()
            if name.startswith("critic_") and name != "critic_keys"
        }
        return {"num_cells": self.num_cells, "activation": self.activation, **options}


@dataclass
class NetworkConfig(BaseNetworkConfig):
    """The networks, with layer normalization, dropout and atoms of the critics.

    >>> NetworkConfig(num_cells=[64, 64]).critic_layer_norm
    False
    """

    shared_encoder: bool = False
    """Share one encoder of images between actor and critics; the critic loss alone trains it, and
    it has no target. Otherwise each network has its own encoder."""

    critic_keys: list[str] | None = None
    """Keys of a structured observation that the critics read, also keys that the policy does not
    observe; null for the keys of the policy."""

    critic_layer_norm: bool = False
    """Layer normalization of the critics' hidden layers, before the activation."""

    critic_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Dropout probability of the critics' hidden layers, in training."""

    critic_atoms: Annotated[int, Field(ge=2, le=10_000)] | None = None
    """Number of atoms on [-5, 5] of a distribution that describes each value, 101 as published; it
    needs normalization.rewards bounded and a small loss.alpha_init. null for scalar values."""


@dataclass
class GaussianHeadConfig(BaseNetworkConfig):
    """The layers of each network, and the Gaussian head of the actor.

    >>> list(GaussianHeadConfig(log_std_min=3.0).errors())
    [('log_std_min', 'must be below log_std_max (2.0), got 3.0')]
    """

    log_std_mode: Literal["clipped_exp", "tanh"] = "clipped_exp"
    """How log_std is limited to its range: clamped (clipped_exp), or rescaled through tanh."""

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
    """The networks of critics, and of an actor with a Gaussian head.

    >>> GaussianNetworkConfig(num_cells=[64, 64]).log_std_max
    2.0
    """


@dataclass
class HybridNetworkConfig(GaussianNetworkConfig):
    """The networks of critics over discrete and continuous actions, and of a Gaussian actor.

    >>> HybridNetworkConfig().critic_action_layer
    'first'
    """

    critic_action_layer: Literal["first", "last"] = "first"
    """Hidden layer of the critics that reads the continuous action; with many discrete actions,
    last makes masked critics faster."""


@dataclass
class ValueNetworkConfig(GaussianNetworkConfig):
    """The networks of actor, critics and state value.

    >>> ValueNetworkConfig().tanh_loc
    False
    """

    tanh_loc: bool = False
    """Limit the mean of the Gaussian to [-1, 1] by tanh."""

    output_init: PositiveFloat | None = None
    """Bound of the uniform initialization of last layers; null for PyTorch's default."""

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
    """Normalize vector observations by their running mean and standard deviation."""

    rewards: bool | Literal["bounded"] = False
    """Divide rewards by the running standard deviation of the discounted return; bounded divides
    by a fifth of the largest return if that is more."""

    clip: PositiveFloat | None = 10.0
    """Maximum absolute value of a normalized observation or reward; null for no limit."""


@dataclass
class PriorConfig:
    """The prior: the policy that the learned one is kept close to.

    >>> list(PriorConfig(kind="policy").errors())
    [('run', "must name a run directory where kind is 'policy'")]
    """

    kind: Literal["none", "uniform", "same_action", "policy", "factory"] = "uniform"
    """Kind of prior: none, uniform over actions, same_action as in the previous step, the policy of
    a run, or the result of a factory."""

    same_action_prob: UnitFloat = 0.9
    """Weight of the previous action, for kind same_action."""

    same_action_noise: PositiveFloat = 0.1
    """Standard deviation around the previous action, as a share of the action's range, for kind
    same_action."""

    run: str | None = None
    """Run directory, or folder of a cloned policy, whose policy is the prior, for kind policy."""

    which: Literal["last", "best"] = "last"
    """Checkpoint of run: the newest (last), or the checkpoint of the best evaluation (best)."""

    warm_start: bool = False
    """Start the actor at the policy of run, and keep its statistics of the observations, for kind
    policy."""

    factory: str | None = None
    """Function that makes a prior for the environment, as module:function, for kind factory."""

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        needs = {"policy": ("run", "a run directory"), "factory": ("factory", "module:function")}
        for kind, (name, what) in needs.items():
            value = getattr(self, name)
            if self.kind == kind and value is None:
                yield name, f"must name {what} where kind is {kind!r}"
            if self.kind != kind and value is not None:
                yield name, f"is for kind {kind!r}, but kind is {self.kind!r}"
        if self.warm_start and self.kind != "policy":
            yield "warm_start", f"is for kind 'policy', but kind is {self.kind!r}"
