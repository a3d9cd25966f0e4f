"""The options of the loss of discrete and continuous actions at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar

from rlkit_sac.config.bounds import NonNegativeFloat, PositiveFloat
from rlkit_sac.config.loss import AlphaParametrization, LossConfig, limit_errors

T = TypeVar("T")


@dataclass
class HybridLossConfig(LossConfig):
    """Options of the soft actor-critic loss for actions that are discrete and continuous at once.

    >>> HybridLossConfig(alpha_init=[0.1, 0.5, 1.0]).errors()
    [('alpha_init', 'must be one value or a [discrete, continuous] pair, got [0.1, 0.5, 1.0]')]
    """

    alpha_init: PositiveFloat | list[PositiveFloat] = 1.0
    """First value of the temperatures alpha, moved inside their limits: one value for both or a
    [discrete, continuous] pair, as in the next four options and target_entropy."""

    min_alpha: PositiveFloat | list[PositiveFloat | None] | None = None
    """Lower limit of alpha; null for none."""

    max_alpha: PositiveFloat | list[PositiveFloat | None] | None = None
    """Upper limit of alpha; null for none."""

    fixed_alpha: bool | list[bool] = False
    """Keep alpha at alpha_init instead of learning it."""

    alpha_parametrization: AlphaParametrization | list[AlphaParametrization] = "log"
    """Factor of the temperature loss: log alpha, exp(log alpha), or a directly learned alpha."""

    target_entropy: (
        float
        | Literal["auto", "scaled_log_k", "neg_dim"]
        | list[float | Literal["auto", "scaled_log_k", "neg_dim"]]
    ) = "auto"
    """Entropies the temperatures aim at, in nats: auto uses min_prob; scaled_log_k is 0.98 log K,
    of the K discrete actions alone; neg_dim is minus the dimensions, of the continuous part
    alone."""

    parameter_mask: bool = False
    """Count the entropy of a continuous dimension only under the discrete actions that use it; each
    discrete action of the task must have parameters of its own."""

    discrete_entropy: Literal["expected", "sampled"] = "expected"
    """Take the exact discrete entropy, or that of one sampled action."""

    dqda_clipping: NonNegativeFloat | None = None
    """Element-wise limit of dQ/da in the actor loss; null or 0 for none."""

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        pairs = {name: getattr(self, name) for name in _PER_FACTOR}
        found = [
            (name, f"must be one value or a [discrete, continuous] pair, got {value}")
            for name, value in pairs.items()
            if isinstance(value, list) and len(value) != 2
        ]
        if found:
            return found
        (low, lower), (high, upper) = _pair(self.min_alpha), _pair(self.max_alpha)
        found = [*super().errors(), *(limit_errors(low, high) or limit_errors(lower, upper))]
        discrete, continuous = _pair(self.target_entropy)
        if discrete == "neg_dim" or continuous == "scaled_log_k":
            text = "scaled_log_k is for the discrete part and neg_dim for the continuous one: write"
            found.append(("target_entropy", f"{text} a pair like [scaled_log_k, neg_dim]"))
        return found


#: Options of a hybrid loss that may be pairs.
_PER_FACTOR = (
    *("alpha_init", "min_alpha", "max_alpha", "fixed_alpha", "alpha_parametrization"),
    "target_entropy",
)


def _pair(option: T | list[T]) -> tuple[T, T]:
    """The (discrete, continuous) values of an option."""
    if isinstance(option, list):
        discrete, continuous = option
        return discrete, continuous
    return option, option
