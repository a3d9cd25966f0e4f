"""The factors of a policy. Each has a way of sampling, a temperature and a target entropy."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from tensordict import NestedKey, TensorDictBase
from torch import Tensor
from torch.distributions import Categorical, Distribution
from torchrl.data import Bounded, TensorSpec
from torchrl.modules.distributions.utils import rsample_and_log_prob

from rlkit_sac.config.loss import LossConfig
from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.functional import (
    count_allowed,
    normalized_log_prob,
    sample_categorical,
)
from rlkit_sac.modules.behavior import ONE_HOT
from rlkit_sac.modules.distributions import check_log_prob
from rlkit_sac.modules.masked_critic import check_mask
from rlkit_sac.modules.priors.parts import PartwisePrior
from rlkit_sac.modules.temperature import Temperature
from rlkit_sac.objectives.checks import NEEDS_SPEC, find_action_spec, find_discrete_spec
from rlkit_sac.objectives.sac.target_entropy import (
    TargetEntropy,
    continuous_entropy_target,
    default_target_kld,
    discrete_entropy_target,
    refuse_target_entropy_with_prior,
    warn_if_impossible,
)

#: The options of temperatures, of which each factor has its own.
TEMPERATURE_OPTIONS = (
    *("alpha_parametrization", "min_alpha", "max_alpha", "fixed_alpha", "target_entropy"),
)
#: The option ``target_entropy`` of a factor after a number or a function was resolved.
NUMBER = "number"


@dataclass(frozen=True)
class FactorSample:
    r"""One sample of a factor of the policy at states ``[*]``, and its log-probabilities.

    Attributes:
        expected_log_prob: :math:`E[\log\pi(a|s)]`, ``[*]``, nats. For a continuous factor it is the
            log-density of the sampled action (``[*, D]`` until
            :meth:`ContinuousFactor.weigh_dimensions`), for a discrete factor the exact sum, minus
            the entropy.
        expected_log_prior: the same for :math:`\log\pi^0`; ``None`` without a prior.
        action: the sampled action ``[*, D]`` of a continuous factor, reparameterized.
        log_probs: the log-probability of each action of a discrete factor, ``[*, K]``.
        log_priors: the log-probability of each action under the prior, ``[*, K]``; ``None`` without
            a prior.
        used_share: the expected share ``[*]`` of the dimensions of ``action`` that the discrete
            action uses; ``None`` without a parameter mask.
        num_allowed: the number of actions that a discrete factor chooses among, ``[*]``; ``None``
            without masks.
    """

    expected_log_prob: Tensor
    expected_log_prior: Tensor | None = None
    action: Tensor | None = None
    log_probs: Tensor | None = None
    log_priors: Tensor | None = None
    used_share: Tensor | None = None
    num_allowed: Tensor | None = None

    @property
    def log_ratio(self) -> Tensor:
        r""":math:`\log\pi - \log\pi^0`, in expectation, or :math:`\log\pi` without a prior."""
        if self.expected_log_prior is None:
            return self.expected_log_prob
        return self.expected_log_prob - self.expected_log_prior


@dataclass(frozen=True)
class PolicySample:
    """One sample of the whole policy at states ``[*]``, with the critics' values that it needed.

    Attributes:
        factors: the sample of each factor, by name.
        inputs: the states with the sampled continuous action, the input of the critics.
        log_probs: the log-probability of each discrete action, ``[*, K]``; ``None`` without
            discrete actions.
        allowed: the mask of allowed discrete actions, bool ``[*, K]``; ``None`` without masks.
        q_values: the outputs ``[R, *, K, M]`` of the live critics if no action is continuous, with
            gradients with respect to their parameters; otherwise ``None``.
        reduced_q: the minimum or mean over the live critics, ``[*, (K,) M]``, with gradients with
            respect to the sampled action. ``None`` for a continuous policy without a value network:
            the actor's loss computes it.
        state_value: V(s) of a value network, ``[*, M]``; ``None`` without one.
    """

    factors: dict[str, FactorSample]
    inputs: TensorDictBase
    log_probs: Tensor | None = None
    allowed: Tensor | None = None
    q_values: Tensor | None = None
    reduced_q: Tensor | None = None
    state_value: Tensor | None = None


@dataclass(eq=False)
class Factor(ABC):
    """One factor of a policy. It holds no tensors: parameters belong to the loss.

    Attributes:
        name: ``"discrete"`` or ``"continuous"``; ``""`` for a policy's only factor.
        temperature: the parametrization and the bounds of the temperature.
        fixed: whether the temperature is fixed.
        target: the option ``target_entropy``; :data:`NUMBER` once a number or function is resolved.
        min_prob: the option ``min_prob``.
        suffix: the end of the names of the factor's parameters, attributes and outputs.
        parameter_name: the name of the temperature's parameter.
        role: the name of the accepted key of the factor's action.
    """

    name: str
    temperature: Temperature
    fixed: bool
    target: TargetEntropy
    min_prob: float

    def __post_init__(self) -> None:
        self.suffix = f"_{self.name}" if self.name else ""
        self.parameter_name, self.role = f"log_alpha{self.suffix}", f"action{self.suffix}"

    @abstractmethod
    def find_spec(
        self, action_spec: TensorSpec | None, actor_spec: TensorSpec | None, key: NestedKey
    ) -> TensorSpec | None:
        """Return the spec of this factor's action: the passed spec, or else the actor's."""

    @abstractmethod
    def resolve_target_entropy(
        self, spec: TensorSpec | None, prior: Any, num_actions: int | None
    ) -> float | None:
        """Return the target entropy in nats, or with a prior minus the target divergence.

        It warns of a target that no policy can reach.

        Args:
            spec: the spec of the action, if known.
            prior: the prior, or ``None``.
            num_actions: the number of discrete actions, if known.

        Returns:
            The target, or ``None`` for a named target without a spec of the discrete action.
        """

    @abstractmethod
    def target_at(self, target_entropy: float | None, sample: FactorSample) -> float | Tensor:
        """Return the target entropy at the states of a sample, a number or ``[*]``.

        Args:
            target_entropy: the result of :meth:`resolve_target_entropy`.
            sample: a sample of this factor.
        """


@dataclass(eq=False)
class ContinuousFactor(Factor):
    """A continuous factor, sampled by reparameterization.

    Attributes:
        target_kld_per_dim: the option ``target_kld_per_dim``.
        parameter_mask: whether there is a parameter mask.
        mask_entropy: the option ``mask_entropy``: whether a mask weights the densities of the
            dimensions.
        weighs_dimensions: whether there is a mask that weights the densities.
    """

    target_kld_per_dim: float
    parameter_mask: bool = False
    mask_entropy: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.weighs_dimensions = self.parameter_mask and self.mask_entropy

    def find_spec(
        self, action_spec: TensorSpec | None, actor_spec: TensorSpec | None, key: NestedKey
    ) -> TensorSpec | None:
        """Return the spec of the continuous action, without batch dimensions.

        Raises:
            ConfigError: for invalid bounds.
        """
        action_spec, leaf = find_action_spec(action_spec, key), find_action_spec(actor_spec, key)
        if action_spec is None:
            return leaf
        if leaf is not None and leaf.ndim and action_spec.shape[-leaf.ndim :] == leaf.shape:
            return action_spec[(0,) * (action_spec.ndim - leaf.ndim)]
        if leaf is not None or action_spec.ndim > 1:
            warnings.warn(
                f"action_spec has the shape {list(action_spec.shape)}, taken as one action of "
                f"{action_spec.shape.numel()} dimensions: of a batched environment pass "
                "env.action_spec_unbatched",
                stacklevel=2,
            )
        return action_spec

    def resolve_target_entropy(
        self, spec: TensorSpec | None, prior: Any, num_actions: int | None
    ) -> float | None:
        """Return the target entropy. The spec is not needed if the option is a number."""
        if prior is None:
            nats = continuous_entropy_target(self.target, spec, min_prob=self.min_prob)
            if isinstance(spec, Bounded):
                volume = (spec.space.high - spec.space.low).double().log().sum()
                warn_if_impossible(f"target_entropy{self.suffix}", nats, -math.inf, float(volume))
            return nats
        refuse_target_entropy_with_prior(self.target)
        if spec is None:
            raise ConfigError(f"target_kld_per_dim {NEEDS_SPEC}; or fixed_alpha=True")
        return -self.target_kld_per_dim * spec.shape.numel()

    def target_at(self, target_entropy: float | None, sample: FactorSample) -> float | Tensor:
        """Return the target entropy. A mask multiplies it by the share of used dimensions."""
        assert target_entropy is not None
        return target_entropy if sample.used_share is None else target_entropy * sample.used_share

    def sample(self, dist: Any, batch_size: torch.Size) -> FactorSample:
        """Sample an action; if a mask weights densities, with the log-density of each dimension.

        Raises:
            BatchError: for a distribution without the required log-probabilities.
        """
        if self.weighs_dimensions:
            action, log_prob = dist.rsample_and_log_probs()
            return FactorSample(log_prob, action=action)
        action, log_prob = rsample_and_log_prob(dist)
        check_log_prob(log_prob, batch_size, dist, "the actor")
        return FactorSample(log_prob, action=action)

    def weigh_dimensions(
        self, sample: FactorSample, log_probs: Tensor, mask: Tensor
    ) -> FactorSample:
        """Weight the densities of a sample by the probability that a dimension is used.

        Args:
            sample: a sample with the density of each dimension.
            log_probs: the log-probability of each discrete action, ``[*, K]``.
            mask: the parameter mask ``[K, D]``.

        Raises:
            ConfigError: for a mask of another shape.
        """
        assert sample.action is not None
        check_mask(mask, log_probs.shape[-1], sample.action.shape[-1])
        with torch.autocast(mask.device.type, enabled=False):
            used = log_probs.exp() @ mask
        log_prior = sample.expected_log_prior
        return replace(
            sample,
            expected_log_prob=(used * sample.expected_log_prob).sum(-1),
            expected_log_prior=None if log_prior is None else (used * log_prior).sum(-1),
            used_share=used.mean(-1),
        )


@dataclass(eq=False)
class DiscreteFactor(Factor):
    """A discrete factor, whose expectations are exact sums.

    Attributes:
        target_kld_discrete: the option ``target_kld_discrete``.
        discrete_entropy: the option ``discrete_entropy``.
    """

    target_kld_discrete: float | None
    discrete_entropy: Literal["expected", "sampled"]

    def find_spec(
        self, action_spec: TensorSpec | None, actor_spec: TensorSpec | None, key: NestedKey
    ) -> TensorSpec | None:
        """Return the spec of the discrete action."""
        leaf = find_discrete_spec(action_spec, key)
        return find_discrete_spec(actor_spec, key) if leaf is None else leaf

    def resolve_target_entropy(
        self, spec: TensorSpec | None, prior: Any, num_actions: int | None
    ) -> float | None:
        """Return the target entropy, or ``None`` if the number of actions is not known yet."""
        if prior is None:
            nats = discrete_entropy_target(self.target, spec=spec, min_prob=self.min_prob)
            if nats is not None and num_actions is not None:
                warn_if_impossible(f"target_entropy{self.suffix}", nats, 0.0, math.log(num_actions))
            return nats
        refuse_target_entropy_with_prior(self.target)
        if (kld := self.target_kld_discrete) is not None:
            most = getattr(prior, "largest_divergence", math.inf)
            warn_if_impossible("target_kld_discrete", kld, 0.0, most)
            return -kld
        count = prior.num_actions() if isinstance(prior, PartwisePrior) else None
        count = count if spec is None else spec.space.n
        return None if count is None else -default_target_kld(count)

    def target_at(self, target_entropy: float | None, sample: FactorSample) -> float | Tensor:
        """Return the target entropy, computed from the number of actions if there was no spec.

        With masks, a named target is computed from the number of allowed actions of each state.
        """
        without_prior = sample.expected_log_prior is None
        named = self.target != NUMBER if without_prior else self.target_kld_discrete is None
        per_state = named and sample.num_allowed is not None and not torch.is_tensor(target_entropy)
        if target_entropy is not None and not per_state:
            return target_entropy
        assert sample.log_probs is not None
        num_actions: Any = sample.num_allowed if per_state else sample.log_probs.shape[-1]
        if not without_prior:
            return -default_target_kld(num_actions)
        return discrete_entropy_target(self.target, num_actions=num_actions, min_prob=self.min_prob)

    def actor_log_probs(
        self, dist: Distribution, num_actions: int, allowed: Tensor | None
    ) -> Tensor:
        """Return log-probabilities ``[*, K]`` of an actor's policy, over the allowed actions.

        Raises:
            BatchError: for another distribution, or another number of actions.
        """
        if not isinstance(dist, Categorical) or isinstance(dist, ONE_HOT):
            raise BatchError(
                f"the actor's distribution is {type(dist).__name__}, wanted a "
                "torch.distributions.Categorical: actions are indices, not one-hot vectors"
            )
        if dist.logits.shape[-1] != num_actions:
            raise BatchError(
                f"the actor has {dist.logits.shape[-1]} actions, but qvalue_network writes "
                f"{num_actions} values"
            )
        logits = dist.logits if allowed is None else getattr(dist, "raw_logits", dist.logits)
        return normalized_log_prob(logits, allowed)

    def sample(
        self, log_probs: Tensor, log_priors: Tensor | None, allowed: Tensor | None
    ) -> FactorSample:
        """Return the policy and its expected log-probability, exact or from one sample.

        Only the latter has no gradient.

        Args:
            log_probs: the log-probability of each action, ``[*, K]``.
            log_priors: the log-probability under the prior, ``[*, K]``, or ``None``.
            allowed: the actions that the policy chooses among, bool ``[*, K]``; ``None`` for all.
        """
        frozen = log_probs.detach()
        weights = frozen.exp()
        if self.discrete_entropy == "sampled":
            index = sample_categorical(frozen).unsqueeze(-1)
            weights = torch.zeros_like(frozen).scatter(-1, index, 1.0)
        return FactorSample(
            (weights * frozen).sum(-1),
            None if log_priors is None else (weights * log_priors.detach()).sum(-1),
            log_probs=log_probs,
            log_priors=log_priors,
            num_allowed=None if allowed is None else count_allowed(allowed).to(frozen.dtype),
        )


def option_per_factor(name: str, value: Any, factors: Sequence[str]) -> dict[str, Any]:
    """Return the value of an option for each factor of the policy.

    Args:
        name: the name of the option, for the error.
        value: one value for all factors, or a sequence.
        factors: the names of the factors, ``[""]`` for a single factor.

    Raises:
        ConfigError: for a sequence of another length.

    >>> option_per_factor("alpha_init", (0.5, 1.0), ["discrete", "continuous"])
    {'discrete': 0.5, 'continuous': 1.0}
    """
    if not isinstance(value, tuple | list):
        return dict.fromkeys(factors, value)
    if len(value) != len(factors):
        raise ConfigError(f"{name} takes one value here, or one for each factor: got {value!r}")
    return dict(zip(factors, value, strict=True))


def make_factors(
    kinds: Sequence[tuple[str, type[Factor]]], options: LossConfig
) -> dict[str, Factor]:
    """Make the factors of a policy.

    Args:
        kinds: the class of each factor, by name.
        options: the options of the loss.

    Raises:
        ConfigError: for options of temperatures that are out of range.
    """
    names = [name for name, _ in kinds]
    modes, low, high, fixed, targets = (
        option_per_factor(option, getattr(options, option), names) for option in TEMPERATURE_OPTIONS
    )
    shared = vars(options).keys()
    return {
        name: kind(
            name=name,
            temperature=Temperature(modes[name], low[name], high[name]),
            fixed=fixed[name],
            target=targets[name],
            **{key: getattr(options, key) for key in kind.__dataclass_fields__.keys() & shared},
        )
        for name, kind in kinds
    }
