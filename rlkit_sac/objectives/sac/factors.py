"""The factors of a policy: how each is sampled, and its target entropy."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from tensordict import NestedKey
from tensordict.utils import unravel_key
from torch import Tensor, nn
from torch.distributions import Categorical, Distribution
from torchrl.data import Bounded, TensorSpec
from torchrl.modules.distributions.utils import rsample_and_log_prob

from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.functional import (
    count_allowed,
    normalized_log_prob,
    sample_categorical,
)
from rlkit_sac.modules import TanhGaussian
from rlkit_sac.modules.behavior import ONE_HOT
from rlkit_sac.modules.distributions import check_log_prob
from rlkit_sac.modules.masked_critic import check_mask
from rlkit_sac.modules.priors.parts import PartwisePrior
from rlkit_sac.modules.temperature import Temperature
from rlkit_sac.objectives.checks import action_leaf, discrete_leaf, hybrid_leaf
from rlkit_sac.objectives.sac.target_entropy import (
    NEEDS_SPEC,
    TargetEntropy,
    continuous_target,
    default_discrete_kld,
    discrete_target,
    refuse_target_entropy,
    warn_if_impossible,
)

#: In place of a target entropy that was given as a number or a function.
NUMBER = "number"


@dataclass(frozen=True)
class Draw:
    r"""One sample from a factor of the policy at states ``[*]``, with what the losses need of it.

    Attributes:
        neg_entropy: :math:`\log\pi(a|s)` of the sampled action, ``[*]``, an estimate of minus the
            entropy, or minus the exact entropy, nats.
        log_prior: the same under the prior, ``[*]``; ``None`` without one.
        action: the sampled action ``[*, D]`` of a continuous factor, reparameterized.
        log_probs: of each action of a discrete factor, ``[*, K]``.
        log_prior_of_each: the same under the prior, ``[*, K]``; ``None`` without one.
        used_share: the expected share ``[*]`` of the dimensions of ``action`` that the discrete
            action uses; ``None`` without a parameter mask.
        num_allowed: number of actions that a discrete factor chooses among, ``[*]``; ``None``
            without masks.
    """

    neg_entropy: Tensor
    log_prior: Tensor | None = None
    action: Tensor | None = None
    log_probs: Tensor | None = None
    log_prior_of_each: Tensor | None = None
    used_share: Tensor | None = None
    num_allowed: Tensor | None = None

    @property
    def log_ratio(self) -> Tensor:
        r""":math:`\log\pi - \log\pi^0`, or :math:`\log\pi` without a prior."""
        return self.neg_entropy if self.log_prior is None else self.neg_entropy - self.log_prior


@dataclass(frozen=True, eq=False)
class Factor(ABC):
    """One factor of a policy. It holds no tensors: parameters belong to the loss.

    Attributes:
        name: ``"discrete"`` or ``"continuous"``; ``""`` for a policy's only factor.
        temperature: the parametrization and the bounds of its temperature.
        fixed: whether the temperature is fixed.
        target: the option ``target_entropy``; :data:`NUMBER` once a number or function is resolved.
        min_prob: the option of that name.
    """

    name: str
    temperature: Temperature
    fixed: bool
    target: TargetEntropy
    min_prob: float

    def key(self, entry: str) -> str:
        """The name of this factor's parameter, attribute or output."""
        return factor_key(entry, self.name)

    @property
    def role(self) -> str:
        """The accepted key under which the batch holds this factor's action."""
        return self.key("action")

    def action_key(self, keys: Any) -> NestedKey:
        """Where the batch holds this factor's action, by the accepted keys of a loss."""
        return unravel_key(getattr(keys, self.role))

    def alpha_loss(
        self, parameter: Tensor, resolved: float | None, drawn: Sequence[Draw]
    ) -> Tensor:
        """The loss ``[*]`` of the temperature, summed over samples.

        Args:
            parameter: of the temperature.
            resolved: the target entropy, of :meth:`resolve_target`.
            drawn: the samples.
        """
        target = sum(self.target_at(resolved, draw) for draw in drawn)
        log_ratio = torch.stack([draw.log_ratio for draw in drawn]).sum(0)
        return self.temperature.loss(parameter, -log_ratio, target)

    @abstractmethod
    def spec(
        self, given: TensorSpec | None, of_actor: TensorSpec | None, key: NestedKey
    ) -> TensorSpec | None:
        """The spec of this factor's action: the one that was passed, or else the actor's."""

    @abstractmethod
    def resolve_target(self, spec: TensorSpec | None, prior: Any, count: Any) -> float | None:
        """The target entropy in nats, or with a prior minus the target divergence.

        One that no policy can have is warned of.

        Args:
            spec: of the action, if known.
            prior: a module, or ``None``.
            count: number of discrete actions, if known.

        Returns:
            ``None`` for a named target without a spec of the discrete action.
        """

    @abstractmethod
    def target_at(self, resolved: float | None, draw: Draw) -> float | Tensor:
        """The target entropy at the states of a sample, a number or ``[*]``."""


@dataclass(frozen=True, eq=False)
class ContinuousFactor(Factor):
    """A continuous factor, sampled by reparameterization.

    Attributes:
        target_kld_per_dim: the option of that name, as the others.
        parameter_mask: whether there is a mask.
        mask_entropy: whether it weighs the densities of the dimensions.
    """

    target_kld_per_dim: float
    parameter_mask: bool = False
    mask_entropy: bool = False

    @property
    def masked(self) -> bool:
        """Whether the densities of its dimensions are weighted by the parameter mask."""
        return self.parameter_mask and self.mask_entropy

    def spec(
        self, given: TensorSpec | None, of_actor: TensorSpec | None, key: NestedKey
    ) -> TensorSpec | None:
        """The spec of the continuous action, without the dimensions of environments.

        Raises:
            ConfigError: for invalid bounds.
        """
        passed, own = action_leaf(given, key), action_leaf(of_actor, key)
        if passed is None:
            return own
        if own is not None and own.ndim and passed.shape[-own.ndim :] == own.shape:
            return passed[(0,) * (passed.ndim - own.ndim)]
        if own is not None or passed.ndim > 1:
            warnings.warn(
                f"action_spec has the shape {list(passed.shape)}, taken as one action of "
                f"{passed.shape.numel()} dimensions: of a batched environment pass "
                "env.action_spec_unbatched",
                stacklevel=2,
            )
        return passed

    def resolve_target(self, spec: TensorSpec | None, prior: Any, count: Any) -> float | None:
        """The target entropy; it needs the spec unless it is given as a number."""
        if prior is None:
            nats = continuous_target(self.target, spec, min_prob=self.min_prob)
            if isinstance(spec, Bounded):
                volume = (spec.space.high - spec.space.low).double().log().sum()
                warn_if_impossible(self.key("target_entropy"), nats, -math.inf, float(volume))
            return nats
        refuse_target_entropy(self.target)
        if spec is None:
            raise ConfigError(f"target_kld_per_dim {NEEDS_SPEC}; or fixed_alpha=True")
        return -self.target_kld_per_dim * spec.shape.numel()

    def target_at(self, resolved: float | None, draw: Draw) -> float | Tensor:
        """The target entropy; with a mask scaled by the share of used dimensions, ``[*]``."""
        assert resolved is not None
        return resolved if draw.used_share is None else resolved * draw.used_share

    def draw(self, dist: Any, batch_size: torch.Size) -> Draw:
        """Sample an action; with a mask ``neg_entropy`` has a last dimension D.

        Raises:
            BatchError: for a distribution without the required log-probabilities.
        """
        if self.masked:
            action, log_prob = dist.rsample_and_log_probs()
            return Draw(log_prob, action=action)
        action, log_prob = rsample_and_log_prob(dist)
        check_log_prob(log_prob, batch_size, dist, "the actor")
        return Draw(log_prob, action=action)

    def weighed(self, draw: Draw, log_probs: Tensor, mask: Tensor) -> Draw:
        """The sample with its densities weighted by the probability that a dimension is used.

        Args:
            draw: a sample with the density of each dimension.
            log_probs: of the discrete actions, ``[*, K]``.
            mask: ``[K, D]``.

        Raises:
            BatchError: for a mask of another shape.
        """
        assert draw.action is not None
        check_mask(mask, log_probs.shape[-1], draw.action.shape[-1])
        with torch.autocast(mask.device.type, enabled=False):
            used = log_probs.exp() @ mask
        log_prior = None if draw.log_prior is None else (used * draw.log_prior).sum(-1)
        return replace(
            draw,
            neg_entropy=(used * draw.neg_entropy).sum(-1),
            log_prior=log_prior,
            used_share=used.mean(-1),
        )


@dataclass(frozen=True, eq=False)
class DiscreteFactor(Factor):
    """A discrete factor, whose expectations are exact sums.

    Attributes:
        target_kld_discrete: the option of that name.
        discrete_entropy: the option of that name.
    """

    target_kld_discrete: float | None
    discrete_entropy: Literal["expected", "sampled"]

    def spec(
        self, given: TensorSpec | None, of_actor: TensorSpec | None, key: NestedKey
    ) -> TensorSpec | None:
        """The spec of the discrete action."""
        passed = discrete_leaf(given, key)
        return discrete_leaf(of_actor, key) if passed is None else passed

    def resolve_target(self, spec: TensorSpec | None, prior: Any, count: Any) -> float | None:
        """The target entropy, or ``None`` if only the critics know the number of actions."""
        if prior is None:
            nats = discrete_target(self.target, spec=spec, min_prob=self.min_prob)
            if nats is not None and count is not None:
                warn_if_impossible(self.key("target_entropy"), nats, 0.0, math.log(count))
            return nats
        refuse_target_entropy(self.target)
        if (kld := self.target_kld_discrete) is not None:
            most = getattr(prior, "largest_divergence", math.inf)
            warn_if_impossible("target_kld_discrete", kld, 0.0, most)
            return -kld
        known = prior.num_actions() if isinstance(prior, PartwisePrior) else None
        known = known if spec is None else spec.space.n
        return None if known is None else -default_discrete_kld(known)

    def target_at(self, resolved: float | None, draw: Draw) -> float | Tensor:
        """The target entropy, computed from the number of actions if there was no spec.

        With masks, one that is not a number is computed from that of each state.
        """
        named = (
            self.target != NUMBER if draw.log_prior is None else self.target_kld_discrete is None
        )
        by_state = named and draw.num_allowed is not None and not isinstance(resolved, Tensor)
        if resolved is not None and not by_state:
            return resolved
        assert draw.log_probs is not None
        num_actions: Any = draw.num_allowed if by_state else draw.log_probs.shape[-1]
        if draw.log_prior is not None:
            return -default_discrete_kld(num_actions)
        return discrete_target(self.target, num_actions=num_actions, min_prob=self.min_prob)

    def actor_log_probs(
        self, dist: Distribution, num_actions: int, allowed: Tensor | None
    ) -> Tensor:
        """Log-probabilities ``[*, K]`` of an actor's policy, over the allowed actions.

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
        given = dist.logits if allowed is None else getattr(dist, "given_logits", dist.logits)
        return normalized_log_prob(given, allowed)

    def draw(self, log_probs: Tensor, log_prior: Tensor | None, allowed: Tensor | None) -> Draw:
        """The exact entropy of a policy, or an estimate from one sample, without gradient.

        Args:
            log_probs: ``[*, K]``.
            log_prior: ``[*, K]`` or ``None``.
            allowed: bool ``[*, K]``, what the policy chooses among; ``None`` for all.
        """
        score = _expectation if self.discrete_entropy == "expected" else _of_one_sample
        of = score(log_probs.detach())
        return Draw(
            of(log_probs.detach()),
            None if log_prior is None else of(log_prior.detach()),
            log_probs=log_probs,
            log_prior_of_each=log_prior,
            num_allowed=None if allowed is None else count_allowed(allowed).to(log_probs.dtype),
        )


def _expectation(log_probs: Tensor) -> Callable[[Tensor], Tensor]:
    probs = log_probs.exp()
    return lambda each: (probs * each).sum(-1)


def _of_one_sample(log_probs: Tensor) -> Callable[[Tensor], Tensor]:
    index = sample_categorical(log_probs).unsqueeze(-1)
    return lambda each: each.gather(-1, index).squeeze(-1)


def factor_key(entry: str, factor: str) -> str:
    """The name of a factor's parameter, attribute or output; a single factor has no suffix.

    >>> factor_key("alpha", "discrete"), factor_key("alpha", "")
    ('alpha_discrete', 'alpha')
    """
    return f"{entry}_{factor}" if factor else entry


def of_each(name: str, value: Any, factors: Sequence[str]) -> dict[str, Any]:
    """The value of an option for each factor of the policy.

    Args:
        name: of the option.
        value: one for all, or a sequence.
        factors: their names, ``[""]`` for a single one.

    Raises:
        ConfigError: for a sequence of another length.

    >>> of_each("alpha_init", (0.5, 1.0), ["discrete", "continuous"])
    {'discrete': 0.5, 'continuous': 1.0}
    """
    if not isinstance(value, tuple | list):
        return dict.fromkeys(factors, value)
    if len(value) != len(factors):
        raise ConfigError(f"{name} takes one value here, or one for each factor: got {value!r}")
    return dict(zip(factors, value, strict=True))


def make_factors(kinds: Sequence[tuple[str, type[Factor]]], options: Any) -> dict[str, Factor]:
    """The factors of a policy.

    Args:
        kinds: the class of each factor, by name.
        options: of the loss.

    Raises:
        ConfigError: for options of temperatures that are out of range.
    """
    names = [name for name, _ in kinds]

    def of(option: str) -> dict[str, Any]:
        return of_each(option, getattr(options, option), names)

    modes, low, high = of("alpha_parametrization"), of("min_alpha"), of("max_alpha")
    fixed, targets, given = of("fixed_alpha"), of("target_entropy"), vars(options).keys()
    return {
        name: kind(
            name=name,
            temperature=Temperature(modes[name], low[name], high[name]),
            fixed=fixed[name],
            target=targets[name],
            **{each: getattr(options, each) for each in kind.__dataclass_fields__.keys() & given},
        )
        for name, kind in kinds
    }


def register_temperatures(loss: Any, options: Any, given: TensorSpec | None, like: Tensor) -> None:
    """Register the temperature of each factor on a loss, and find its spec and target entropy.

    The temperature's parameter, such as ``log_alpha_discrete``, is a buffer if it is fixed. The
    target becomes an attribute, such as ``target_entropy_discrete``. The specs by role are
    ``specs``.

    Args:
        loss: with its factors, priors and keys.
        options: of its section.
        given: the option ``action_spec``.
        like: a tensor with the dtype and the device for the parameters.
    """
    starts = of_each("alpha_init", options.alpha_init, list(loss.factors))
    of_actor, several = getattr(loss.actor_network, "spec", None), len(starts) > 1
    loss.specs = {}
    note = getattr(loss.qvalue_network, "note", None)
    count = None if note is None else note["arguments"].get("num_actions")
    for name, factor in list(loss.factors.items()):
        parameter = like.detach().new_full((), factor.temperature.initial_parameter(starts[name]))
        if factor.fixed:
            loss.register_buffer(factor.key("log_alpha"), parameter)
        else:
            loss.register_parameter(factor.key("log_alpha"), nn.Parameter(parameter))
        key, prior, target = factor.action_key(loss.tensor_keys), loss.priors.of(name), None
        passed = hybrid_leaf(given, key) if several else given
        own = None if several and isinstance(factor, DiscreteFactor) else of_actor
        spec = loss.specs[factor.role] = factor.spec(passed, own, key)
        count = getattr(getattr(spec, "space", None), "n", count)
        if not factor.fixed:
            target = factor.resolve_target(spec, None if prior is None else prior.prior, count)
        setattr(loss, factor.key("target_entropy"), target)
        if not isinstance(factor.target, str):  # it may be a function, which pickle refuses
            loss.factors[name] = replace(factor, target=NUMBER)
    if loss.parameter_mask is not None:  # the last factor is continuous
        mask = loss.parameter_mask.mask
        check_mask(mask, count or len(mask), (mask if spec is None else spec).shape[-1])
        dist = getattr([*loss.actor_network.modules()][-1], "distribution_class", None)
        if factor.masked and isinstance(dist, type) and not issubclass(dist, TanhGaussian):
            raise ConfigError(
                f"the actor's distribution is {dist.__name__}: parameter_mask needs the density of "
                "each dimension, which rlkit_sac.modules.TanhGaussian gives; or mask_entropy=False"
            )
