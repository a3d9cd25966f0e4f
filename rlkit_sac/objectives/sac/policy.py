"""The policy of a loss: its priors, its samples, and the losses and bonus that they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModuleBase, TensorDictParams
from torch import Tensor, nn
from torch.distributions import Distribution
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac import functional as F
from rlkit_sac.functional import masked_mean
from rlkit_sac.functional.sac import CriticReduction
from rlkit_sac.modules import BehaviorPolicy, BoltzmannPolicy
from rlkit_sac.modules.allowed_actions import build_dist, read_action_mask
from rlkit_sac.modules.masked_critic import ParameterMask
from rlkit_sac.modules.priors.frozen import FrozenPrior
from rlkit_sac.objectives.members import Members
from rlkit_sac.objectives.sac.critics import CRITICS, Critics
from rlkit_sac.objectives.sac.factors import (
    ContinuousFactor,
    DiscreteFactor,
    Draw,
    factor_key,
    of_each,
)


class Priors(nn.ModuleDict):
    """The priors of a policy's factors, copied and not trained.

    Args:
        given: one prior for all factors, ``None``, or a sequence with a prior or ``None`` for each.
        factors: names of the policy's factors.
        like: a tensor with the dtype and the device for the copies.

    Raises:
        ConfigError: for a module that is not a prior.
    """

    def __init__(self, given: Any, factors: Sequence[str], like: Tensor) -> None:
        super().__init__()
        # One prior over all factors is copied once, without the name of a part.
        several = isinstance(given, tuple | list)
        of_parts = of_each("prior_network", given, factors) if several else {"": given}
        for part, network in of_parts.items():
            if network is not None:
                frozen = FrozenPrior(network, part=part)
                self[factor_key("prior", part)] = frozen.to(dtype=like.dtype, device=like.device)

    def of(self, factor: str) -> FrozenPrior | None:
        """The prior of a factor, if it has one."""
        keys = (factor_key("prior", factor), "prior")
        return next((cast(FrozenPrior, self[key]) for key in keys if key in self), None)

    @property
    def in_keys(self) -> list[NestedKey]:
        """Entries that the priors read at a state."""
        read = (key for module in self.values() for key in cast(FrozenPrior, module).in_keys)
        return list(dict.fromkeys(read))


class RunningLogProb(nn.Module):
    r"""A running mean of :math:`\log\pi`, subtracted from it before the entropy bonus.

    The k-th batch moves the mean towards the batch mean with the rate :math:`8/(7+k)`, so the
    first sets it. It is updated in training mode with gradients enabled only; batches without
    a valid step are ignored.

    Source: the ``normalize_entropy_reward`` option of ALF's ``SacAlgorithm``.

    Args:
        like: a tensor of the dtype and the device.

    >>> center = RunningLogProb(torch.zeros(()))
    >>> center.move(torch.tensor([2.0, 4.0]))
    >>> center(torch.tensor([4.0]))
    tensor([1.])
    """

    mean: Tensor
    count: Tensor

    def __init__(self, like: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", like.detach().new_zeros(()))
        self.register_buffer("count", like.new_zeros((), dtype=torch.int64))

    def move(self, log_prob: Tensor, valid: Tensor | None = None) -> None:
        """Move towards the mean log-probability of a batch, unless that is not finite.

        Args:
            log_prob: ``[*]``.
            valid: bool ``[*]``, or ``None`` if every step is valid.
        """
        if not (self.training and torch.is_grad_enabled()):
            return
        with torch.no_grad():
            # Selected on the device: a branch would make the processor wait for it.
            mean = masked_mean(log_prob, valid)
            # Terminal states may be NaN, which must not stay in the running mean.
            counts = mean.isfinite() if valid is None else mean.isfinite() & valid.any()
            self.count += counts.to(torch.int64)
            rate = 8 / (7 + self.count.to(self.mean.dtype))
            self.mean += torch.where(counts, rate * (mean - self.mean), torch.zeros_like(mean))

    def forward(self, log_prob: Tensor) -> Tensor:
        """``log_prob`` minus the running mean."""
        return log_prob - self.mean


@dataclass(frozen=True)
class PolicyDraw:
    """One sample from the whole policy at some states.

    Attributes:
        factors: the sample from each factor, by name.
        inputs: the states with the sampled continuous action, the input of the critics.
        log_probs: of the discrete actions, ``[*, K]``; ``None`` without any.
        q: values ``[R, *, K, M]`` of the live critics if no action is continuous, with gradients
            with respect to their parameters; otherwise ``None``.
        value: ``[*, (K,) M]``, the values of the inputs reduced over the live critics, with
            gradients with respect to the sampled action; ``None`` if not computed yet.
        state_value: ``[*, M]``, of the value network, if there is one.
    """

    factors: dict[str, Draw]
    inputs: TensorDictBase
    log_probs: Tensor | None = None
    q: Tensor | None = None
    value: Tensor | None = None
    state_value: Tensor | None = None


#: The temperature of a factor, by its name.
Alpha = Callable[[str], Tensor]


class FactoredPolicy(NamedTuple):
    r"""A continuous factor, a discrete one, or the first and, given its action, the second.

    It holds no parameters that are trained.

    Attributes:
        continuous: :math:`\pi_c(c|s)`.
        discrete: :math:`\pi_d(d|s, c)`, of an actor or the soft-optimal one of the critics.
        critics: of the loss.
        priors: of the factors.
        mask: weights the densities of the continuous action's dimensions.
        centers: a :class:`RunningLogProb` for each factor, or none.
        reduction: over the critics.
        use_entropy_reward: whether the bonus is not 0.
        live: returns the live critics.
        alpha: the temperatures.
    """

    continuous: ContinuousFactor | None
    discrete: DiscreteFactor | None
    critics: Critics
    priors: Priors
    mask: ParameterMask | None
    centers: nn.ModuleDict
    reduction: CriticReduction
    use_entropy_reward: bool
    live: Callable[[], Members]
    alpha: Alpha

    def sample(self, states: TensorDictBase, dist: Distribution | None) -> PolicyDraw:
        """Sample the continuous action first, then the discrete one.

        Args:
            states: ``[*]``.
            dist: of the actor at these states; ``None`` without one.
        """
        continuous, discrete, critics = self.continuous, self.discrete, self.critics
        draws: dict[str, Draw] = {}
        inputs = states
        if continuous is not None:
            assert dist is not None
            drawn = continuous.draw(dist, states.batch_size)
            assert drawn.action is not None
            key = continuous.action_key(critics.keys)
            inputs = states.copy().set(key, drawn.action)
            if (prior := self.priors.of(continuous.name)) is not None:
                score = prior.log_prob_of_each_dimension if continuous.masked else prior.log_prob
                drawn = replace(drawn, log_prior=score(inputs, drawn.action, key))
            draws[continuous.name] = drawn
        if discrete is None:
            return PolicyDraw(draws, inputs)
        if continuous is None:
            q: Tensor | None = (values := critics.values(self.live(), inputs))
            value = critics.reduced(values.detach(), self.reduction)
        else:
            q, value = None, self.value(inputs)
        prior, count = self.priors.of(discrete.name), value.shape[-2]
        allowed = read_action_mask(inputs, critics.keys.action_mask, value[..., 0])
        log_prior = None
        if prior is not None:
            key = discrete.action_key(critics.keys)
            log_prior = prior.log_prob_of_each_action(inputs, count, key, allowed)
        if continuous is None and dist is not None:
            log_probs = discrete.actor_log_probs(dist, count, allowed)
        else:
            weighed = F.weigh_rewards(value.detach(), critics.weights.value)
            prior_of_each = None if log_prior is None else log_prior.detach()
            alpha = self.alpha(discrete.name)
            log_probs = F.boltzmann_log_prob(weighed, alpha, prior_of_each, allowed)
        draws = {discrete.name: discrete.draw(log_probs, log_prior, allowed)} | draws
        if continuous is not None and continuous.masked:
            assert self.mask is not None
            drawn = draws[continuous.name]
            draws[continuous.name] = continuous.weighed(drawn, log_probs, self.mask.mask)
        return PolicyDraw(draws, inputs, log_probs, q, value)

    def acting(
        self, network: Callable[[str], Any], log_alpha: Alpha, *, actor: bool
    ) -> list[TensorDictModuleBase]:
        """The modules that act, in order, with live parameters.

        Args:
            network: a network of the loss, by name.
            log_alpha: the parameters of the temperatures.
            actor: whether there is one.
        """
        parts, discrete, critics = [], self.discrete, self.critics
        mask_key = None if discrete is None else critics.keys.action_mask
        if actor:
            parts.append(network("actor_network"))
            if self.continuous is None and mask_key is not None:
                parts = [BehaviorPolicy(parts[0], ("logits",), mask_key)]
        if discrete is not None and (self.continuous is not None or not parts):
            boltzmann = BoltzmannPolicy(
                critics.acting(network(CRITICS)),
                log_alpha(discrete.name),
                discrete.temperature,
                reward_weights=critics.weights,
                reduction=self.reduction,
                prior=self.priors.of(discrete.name),
                action_key=discrete.action_key(critics.keys),
                action_value_key=critics.value_key,
                mask_key=mask_key,
            )
            parts.append(boltzmann)
        return parts

    def value(self, inputs: TensorDictBase) -> Tensor:
        """The reduced value ``[*, (K,) M]`` of the critics, without gradients for them."""
        live = self.live()
        frozen = live._replace(params=live.params.data)
        return self.critics.reduced(self.critics.values(frozen, inputs), self.reduction)

    def actor_loss(self, draw: PolicyDraw, clipping: float | Tensor | None) -> Tensor:
        """The loss ``[*]`` of the actor, without gradients for the critics.

        Args:
            draw: of :meth:`sample`.
            clipping: bound of the gradient with respect to the continuous action.
        """
        continuous, discrete, weights = self.continuous, self.discrete, self.critics.weights.value
        value = self.value(draw.inputs) if draw.value is None else draw.value
        if continuous is None:
            assert discrete is not None
            drawn = draw.factors[discrete.name]
            assert drawn.log_probs is not None
            q = F.weigh_rewards(value, weights)
            return F.categorical_actor_loss(
                q, drawn.log_probs, self.alpha(discrete.name), drawn.log_prior_of_each
            )
        drawn = draw.factors[continuous.name]
        assert drawn.action is not None
        value = F.weigh_rewards(self.critics.expected(value, draw.log_probs), weights)
        value = F.clip_action_gradient(value, drawn.action, clipping)
        loss = F.actor_loss(value, drawn.log_ratio, self.alpha(continuous.name))
        if draw.state_value is not None:  # a baseline, which changes no gradient
            loss = loss + F.weigh_rewards(draw.state_value.detach(), weights)
        if discrete is None:
            return loss
        log_prior = draw.factors[discrete.name].log_prior_of_each
        if log_prior is not None and log_prior.requires_grad:
            # The soft maximum of a discrete prior that depends on c has this share in its gradient.
            assert draw.log_probs is not None
            change = log_prior - log_prior.detach()
            favored = (draw.log_probs.exp() * change).sum(-1)
            loss = loss - self.alpha(discrete.name) * favored
        return loss

    def value_loss(self, draw: PolicyDraw) -> Tensor:
        """The loss ``[*]`` of a value network, whose value at the states the draw holds."""
        assert draw.state_value is not None
        assert draw.value is not None
        with torch.no_grad():
            target = F.soft_value(draw.value, self.bonus(draw))
        return F.value_loss(draw.state_value, target, self.critics.loss_function)

    def scalars(self, draw: PolicyDraw, valid: Tensor | None) -> dict[str, Tensor]:
        """Temperatures, entropies and divergences from priors, means over the valid steps."""
        found: dict[str, Tensor] = {}
        for name, drawn in draw.factors.items():
            found[factor_key("alpha", name)] = self.alpha(name)
            found[factor_key("entropy", name)] = masked_mean(-drawn.neg_entropy.detach(), valid)
            if drawn.log_prior is not None:
                found[factor_key("kl", name)] = masked_mean(drawn.log_ratio.detach(), valid)
        return found

    def bonus(self, draw: PolicyDraw) -> Tensor:
        """The entropy bonus of a state, ``[*, 1]``; 0 without ``use_entropy_reward``."""
        if not self.use_entropy_reward:
            return torch.zeros_like(next(iter(draw.factors.values())).neg_entropy).unsqueeze(-1)
        log_ratios = [each.log_ratio for each in draw.factors.values()]
        if self.centers:
            pairs = zip(draw.factors, log_ratios, strict=True)
            log_ratios = [self._center(name)(log_ratio) for name, log_ratio in pairs]
        return F.entropy_bonus(log_ratios, map(self.alpha, draw.factors)).unsqueeze(-1)

    def move_centers(
        self, draw: PolicyDraw, next_draw: PolicyDraw | None, valid: Tensor | None
    ) -> None:
        """Move the running means towards those of samples at s and s', if there are any."""
        for name in draw.factors if self.centers else ():
            assert next_draw is not None
            both = 0.5 * (draw.factors[name].log_ratio + next_draw.factors[name].log_ratio)
            self._center(name).move(both.detach(), valid)

    def _center(self, factor: str) -> RunningLogProb:
        return cast(RunningLogProb, self.centers[factor_key("log_prob", factor)])


def make_policy(loss: Any, options: Any) -> Callable[..., FactoredPolicy]:
    """Makes the policy of a loss, with its critics, of its ``live`` and ``alpha``.

    These two are bound to the loss, which would hold itself if it held the policy.

    Args:
        loss: on which everything that has tensors is registered.
        options: of its section.
    """
    factors = loss.factors.values()
    continuous = next((each for each in factors if isinstance(each, ContinuousFactor)), None)
    discrete = next((each for each in factors if isinstance(each, DiscreteFactor)), None)
    critics = Critics(
        network=loss.qvalue_network,
        keys=loss.tensor_keys,
        encoded=loss._encoded_keys,
        memory=loss.recurrent.get(CRITICS),
        normalizer=loss.critic_normalizer or loss.observation_normalizer,
        weights=loss._reward_weights,
        loss_function=options.loss_function,
        action_role=None if continuous is None else continuous.role,
        index_role=None if discrete is None else discrete.role,
        spec=None if discrete is None else loss.specs[discrete.role],
        mask=loss.parameter_mask if getattr(options, "mask_critics", False) else None,
    )
    return partial(
        FactoredPolicy,
        continuous,
        discrete,
        critics,
        loss.priors,
        loss.parameter_mask,
        loss.entropy_centers,
        options.policy_reduction,
        options.use_entropy_reward,
    )


def actor_distribution(
    actor: nn.Module,
    head: Any,
    params: TensorDictParams,
    states: TensorDictBase,
    *,
    masked: bool = False,
) -> Distribution:
    """The distribution of an actor at some states, in the dtype of its parameters.

    Args:
        actor: without parameters.
        head: the actor, or what comes after its memory.
        params: of the actor.
        states: ``[*]``, with normalized observations, or what the head reads.
        masked: whether a mask of actions will be applied to the logits.
    """
    like, *_ = params.values(True, True)
    # TorchRL calls losses in the deterministic mode; a draw needs the random one.
    with (
        set_exploration_type(ExplorationType.RANDOM),
        params.to_module(actor, preserve_module_state=False),
    ):
        if not torch.is_autocast_enabled(like.device.type):
            if masked:
                return build_dist(head, head.get_dist_params(states))
            return head.get_dist(states)
        found = head.get_dist_params(states)
        raised = found.apply(lambda x: x.to(like.dtype) if x.is_floating_point() else x)
        return build_dist(head, raised)
