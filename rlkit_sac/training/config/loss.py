"""The options of the losses of one kind of action."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from rlkit_sac.training.bounds import Bound, NonNegativeFloat, PositiveFloat, PositiveInt

AlphaParametrization = Literal["log", "exp", "direct"]


@dataclass
class LossConfig:
    """Options that the soft actor-critic losses of all action spaces share.

    >>> LossConfig(gamma=0.9).num_qvalue_nets
    2
    """

    gamma: Annotated[float, Bound(ge=0, le=1)] = 0.99
    """Discount per frame."""

    num_qvalue_nets: PositiveInt = 2
    """Critics in the ensemble; targets use their minimum."""

    loss_function: Literal["l1", "l2", "smooth_l1"] = "l2"
    """Distance between a critic's value and its target."""

    qvalue_coef: NonNegativeFloat = 1.0
    """Factor on the critic loss."""

    reward_scale: PositiveFloat = 1.0
    """Factor on rewards in training; reported returns are unscaled."""

    reward_weights: list[float] | None = None
    """Weights of a vector reward, one for each dimension; null for ones."""

    reward_weights_at: dict[int, list[float]] = field(default_factory=dict)
    """Other weights from some frames on, for example {50000: [1.0, 0.5]}."""

    min_prob: Annotated[float, Bound(gt=0, le=1)] = 0.1
    """p of the auto target entropy: of a continuous action's range a uniform policy covers the
    share p; of discrete actions a policy leaves the probability p to all but one."""

    use_entropy_reward: bool = True
    """Add the entropy bonus to the value of the next state."""

    normalize_entropy_reward: bool = False
    """Subtract a running mean of the log-probability from the entropy bonus."""

    policy_loss_steps: Literal["first", "next", "all"] = "first"
    """States of the actor and temperature losses: s, s', or both."""

    schedules: dict[str, dict[int, float]] = field(default_factory=dict)
    """Numbers that change with the frames, linearly between those named, in place of the option
    itself: {gamma: {0: 0.95, 50000: 0.99}}."""

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of the loss, which knows no frames."""
        arguments = asdict(self)
        for name in ("reward_weights_at", "schedules"):
            del arguments[name]
        return arguments


@dataclass
class TemperatureConfig:
    """One temperature alpha.

    >>> TemperatureConfig(min_alpha=0.5, max_alpha=0.1).errors()
    [('min_alpha', 'must not exceed max_alpha (0.1), got 0.5')]
    """

    alpha_init: PositiveFloat = 1.0
    """First value of the temperature alpha, moved inside its limits."""

    min_alpha: PositiveFloat | None = None
    """Lower limit of alpha; null for none."""

    max_alpha: PositiveFloat | None = None
    """Upper limit of alpha; null for none."""

    fixed_alpha: bool = False
    """Keep alpha at alpha_init instead of learning it."""

    alpha_parametrization: AlphaParametrization = "log"
    """Factor of the temperature loss: log alpha, exp(log alpha), or a directly learned alpha."""

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        return crossed(self.min_alpha, self.max_alpha)


@dataclass
class ContinuousLossConfig(TemperatureConfig, LossConfig):
    """Options of the soft actor-critic loss for continuous actions.

    >>> ContinuousLossConfig().target_entropy
    'auto'
    """

    target_entropy: float | Literal["auto", "neg_dim"] = "auto"
    """Entropy the temperature aims at, in nats; auto uses min_prob, neg_dim is -dim(action)."""

    dqda_clipping: NonNegativeFloat | None = None
    """Element-wise limit of dQ/da in the actor loss; null or 0 for none."""


@dataclass
class DiscreteLossConfig(TemperatureConfig, LossConfig):
    """Options of the soft actor-critic loss for discrete actions.

    >>> DiscreteLossConfig().discrete_entropy
    'expected'
    """

    target_entropy: float | Literal["auto", "scaled_log_k"] = "auto"
    """Entropy the temperature aims at, in nats; auto uses min_prob, scaled_log_k is 0.98 log K of K
    actions."""

    discrete_entropy: Literal["expected", "sampled"] = "expected"
    """Take the exact entropy, or that of one sampled action."""


def crossed(low: float | None, high: float | None) -> list[tuple[str, str]]:
    """The error of a lower limit above the upper one."""
    if low is None or high is None or low <= high:
        return []
    return [("min_alpha", f"must not exceed max_alpha ({high}), got {low}")]
