"""Options of the losses of soft actor-critic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from rlkit_sac.config.options import (
    ModestInt,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    UnitFloat,
    schedule_errors,
)

AlphaParametrization = Literal["log", "exp", "direct"]


@dataclass
class BaseLossConfig:
    """Options of the return, in every loss.

    >>> BaseLossConfig(gamma=0.9).reward_scale
    1.0
    """

    gamma: UnitFloat = 0.99
    """Discount factor per frame."""

    reward_scale: float = 1.0
    """Factor on rewards in training; reported returns are unscaled."""

    schedules: dict[str, dict[int, float]] = field(default_factory=dict)
    """Options that change with the frames, linearly between the values given:
    {gamma: {0: 0.95, 50000: 0.99}}."""

    scheduled: ClassVar[tuple[str, ...]] = (
        *("gamma", "beta", "qvalue_coef", "reward_scale", "dqda_clipping"),
        *("target_kld_discrete", "target_kld_per_dim"),
    )

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the loss: all options but the schedules."""
        return {name: value for name, value in asdict(self).items() if name != "schedules"}

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        return schedule_errors(self)


@dataclass
class LossConfig(BaseLossConfig):
    """Options of the soft actor-critic losses for all action spaces.

    >>> LossConfig(gamma=0.9).num_qvalue_nets
    2
    """

    lmbda: UnitFloat = 0.0
    """lambda of the returns over slices of replay.slice_length frames: 0 for one-step targets, 1
    for targets that reach to the end of a slice."""

    num_qvalue_nets: ModestInt = 2
    """Number of critics in the ensemble."""

    target_subset: PositiveInt | None = None
    """Number of target critics, drawn anew for each update, whose minimum the targets use; null for
    all (Chen et al. 2021, arXiv:2101.05982)."""

    policy_reduction: Literal["min", "mean"] = "min"
    """Value that the policy (and the target of V) uses: the minimum or mean of the critics."""

    loss_function: Literal["l1", "l2", "smooth_l1"] = "l2"
    """Distance between the value of a critic and the target."""

    qvalue_coef: NonNegativeFloat = 1.0
    """Factor on the critic loss."""

    reward_weights: list[float] | None = None
    """Weights of a vector reward, one for each dimension; null for 1 each."""

    min_prob: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Number p of the auto target entropy: the entropy of a uniform policy over the share p of a
    continuous action's range, or of a discrete policy that takes one action with probability
    1 - p."""

    use_entropy_reward: bool = True
    """Add the entropy bonus to the value of the next state."""

    normalize_entropy_reward: bool = False
    """Subtract a running mean of the log-probability from the entropy bonus."""

    policy_loss_steps: Literal["first", "next", "all"] = "first"
    """States in the actor and temperature losses: s (first), s' (next), or both (all)."""

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        yield from super().errors()
        if self.target_subset is not None and self.target_subset > self.num_qvalue_nets:
            text = f"must not exceed num_qvalue_nets ({self.num_qvalue_nets})"
            yield "target_subset", f"{text}, got {self.target_subset}"


@dataclass
class TemperatureConfig(LossConfig):
    """Options of the losses with one temperature alpha.

    >>> list(TemperatureConfig(min_alpha=0.5, max_alpha=0.1).errors())
    [('min_alpha', 'must not exceed max_alpha (0.1), got 0.5')]
    """

    alpha_init: PositiveFloat = 1.0
    """Initial value of the temperature alpha, clamped to its limits."""

    min_alpha: NonNegativeFloat | None = None
    """Lower limit of alpha; null for none."""

    max_alpha: PositiveFloat | None = None
    """Upper limit of alpha; null for none."""

    fixed_alpha: bool = False
    """Keep alpha at alpha_init instead of learning it."""

    alpha_parametrization: AlphaParametrization = "log"
    """Factor of the temperature loss: log alpha, exp(log alpha), or a directly learned alpha."""

    scheduled: ClassVar[tuple[str, ...]] = (*LossConfig.scheduled, "alpha_init", "target_entropy")

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        yield from super().errors()
        yield from _limit_errors(self.min_alpha, self.max_alpha)


@dataclass
class PlainContinuousLossConfig(TemperatureConfig):
    """Options of the soft actor-critic loss for continuous actions, without a prior.

    >>> PlainContinuousLossConfig().target_entropy
    'auto'
    """

    target_entropy: float | Literal["auto", "neg_dim", "half_neg_dim"] = "auto"
    """Target entropy of the policy, in nats; auto uses min_prob, neg_dim is -dim(action),
    half_neg_dim is half of that."""

    dqda_clipping: NonNegativeFloat | None = None
    """Element-wise limit of dQ/da in the actor loss; null or 0 for none."""


@dataclass
class ContinuousLossConfig(PlainContinuousLossConfig):
    """Options of the soft actor-critic loss for continuous actions, with or without a prior.

    >>> ContinuousLossConfig().target_kld_per_dim
    3.0
    >>> [(key, _)] = ContinuousLossConfig(schedules={"target_entropy": {0: -1.0}}).errors()
    >>> key
    'schedules'
    """

    target_kld_per_dim: NonNegativeFloat = 3.0
    """Target divergence from the prior, in nats per action dimension; with a prior it replaces
    target_entropy."""

    scheduled: ClassVar[tuple[str, ...]] = (*LossConfig.scheduled, "alpha_init")


@dataclass
class PlainDiscreteLossConfig(TemperatureConfig):
    """Options of the soft actor-critic loss for discrete actions, without a prior.

    >>> PlainDiscreteLossConfig().discrete_entropy
    'expected'
    """

    target_entropy: float | Literal["auto", "scaled_log_k"] = "auto"
    """Target entropy of the policy, in nats; auto uses min_prob, scaled_log_k is 0.98 log K for K
    actions."""

    discrete_entropy: Literal["expected", "sampled"] = "expected"
    """Entropy of the policy: exact (expected), or estimated by one sampled action (sampled)."""


@dataclass
class DiscreteLossConfig(PlainDiscreteLossConfig):
    """Options of the soft actor-critic loss for discrete actions, with or without a prior.

    >>> DiscreteLossConfig().target_kld_discrete
    """

    target_kld_discrete: NonNegativeFloat | None = None
    """Target divergence from the prior, in nats; null for half of log K."""


@dataclass
class HybridLossConfig(LossConfig):
    """Options of the soft actor-critic loss for actions that are discrete and continuous at once.

    >>> list(HybridLossConfig(alpha_init=[0.1, 0.5, 1.0]).errors())
    [('alpha_init', 'must be one value or a [discrete, continuous] pair, got [0.1, 0.5, 1.0]')]
    """

    alpha_init: PositiveFloat | list[PositiveFloat] = 1.0
    """Initial value of the temperatures alpha, clamped to their limits: one value for both, or a
    [discrete, continuous] pair. The next four options and target_entropy may be pairs too."""

    min_alpha: NonNegativeFloat | list[NonNegativeFloat | None] | None = None
    """Lower limit of alpha; null for none."""

    max_alpha: PositiveFloat | list[PositiveFloat | None] | None = None
    """Upper limit of alpha; null for none."""

    fixed_alpha: bool | list[bool] = False
    """Keep alpha at alpha_init instead of learning it."""

    alpha_parametrization: AlphaParametrization | list[AlphaParametrization] = "log"
    """Factor of the temperature loss: log alpha, exp(log alpha), or a directly learned alpha."""

    target_entropy: (
        float
        | Literal["auto", "scaled_log_k", "neg_dim", "half_neg_dim"]
        | list[float | Literal["auto", "scaled_log_k", "neg_dim", "half_neg_dim"]]
    ) = "auto"
    """Target entropies in nats; auto uses min_prob. For the discrete part, scaled_log_k is 0.98
    log K for K actions. For the continuous part, neg_dim is minus the number of dimensions, and
    half_neg_dim is half of that."""

    target_kld_discrete: NonNegativeFloat | None = None
    """With a prior, the target divergence of the discrete part in nats; null for half of log K."""

    target_kld_per_dim: NonNegativeFloat = 3.0
    """With a prior, the target divergence of the continuous part in nats per action dimension."""

    parameter_mask: bool = False
    """Let the loss know which continuous dimensions each discrete action uses, for tasks in which
    each discrete action has parameters of its own."""

    mask_entropy: bool = True
    """With parameter_mask, count the entropy of a continuous dimension only under the discrete
    actions that use it."""

    mask_critics: bool = False
    """With parameter_mask, let the value of a discrete action depend on its own parameters only;
    updates take longer with the number of actions."""

    discrete_entropy: Literal["expected", "sampled"] = "expected"
    """Entropy of the discrete part: exact (expected), or of one sampled action (sampled)."""

    dqda_clipping: NonNegativeFloat | None = None
    """Element-wise limit of dQ/da in the actor loss; null or 0 for none."""

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        values = {name: getattr(self, name) for name in _PAIRS}
        wrong = {name: x for name, x in values.items() if isinstance(x, list) and len(x) != 2}
        for name, value in wrong.items():
            yield name, f"must be one value or a [discrete, continuous] pair, got {value}"
        if wrong:
            return
        limits = zip(_pair(self.min_alpha), _pair(self.max_alpha), strict=True)
        yield from super().errors()
        yield from [error for low, high in limits for error in _limit_errors(low, high)][:1]
        if self.mask_critics and not self.parameter_mask:
            yield "mask_critics", "needs parameter_mask true, got true without it"
        discrete, continuous = _pair(self.target_entropy)
        if discrete in ("neg_dim", "half_neg_dim") or continuous == "scaled_log_k":
            text = "scaled_log_k is for the discrete part and neg_dim for the continuous one: write"
            yield "target_entropy", f"{text} a pair like [scaled_log_k, neg_dim]"


#: Options of a hybrid loss that may be pairs.
_PAIRS = (
    *("alpha_init", "min_alpha", "max_alpha", "fixed_alpha", "alpha_parametrization"),
    "target_entropy",
)


def _limit_errors(low: float | None, high: float | None) -> Iterable[tuple[str, str]]:
    """Yield an error for a lower limit of alpha above the upper one."""
    if low is not None and high is not None and low > high:
        yield "min_alpha", f"must not exceed max_alpha ({high}), got {low}"


def _pair(option: Any) -> list[Any]:
    """Return the discrete and the continuous value of an option."""
    return option if isinstance(option, list) else [option, option]
