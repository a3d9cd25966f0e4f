"""The losses of soft actor-critic, for a policy of one or two factors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, cast

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import (
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictParams,
    dispatch,
)
from tensordict.utils import unravel_key
from torch import Tensor, nn
from torch.distributions import Distribution
from torchrl.data import TensorSpec
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.objectives import ValueEstimators

from rlkit_sac import functional as F
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.acting import acting_policy
from rlkit_sac.modules.boltzmann import BoltzmannPolicy
from rlkit_sac.modules.masked_critic import MaskedCritic
from rlkit_sac.modules.reward_weights import RewardWeights
from rlkit_sac.objectives.checks.networks import actor_keys, refuse_batch_norm
from rlkit_sac.objectives.checks.options import (
    FINITE,
    NOT_NEGATIVE,
    POSITIVE,
    UNIT,
    Bound,
    check_number,
)
from rlkit_sac.objectives.checks.specs import hybrid_leaf
from rlkit_sac.objectives.checks.validity import cut_steps
from rlkit_sac.objectives.contract import LossContract
from rlkit_sac.objectives.members import Members
from rlkit_sac.objectives.memory import Pass
from rlkit_sac.objectives.sac.critics import CRITICS, Critics, SACTransitions, TargetCritics
from rlkit_sac.objectives.sac.diagnostics import critic_diagnostics, diagnostic_keys
from rlkit_sac.objectives.sac.draws import Draw, PolicyDraw
from rlkit_sac.objectives.sac.ensemble import critic_list, register_critics
from rlkit_sac.objectives.sac.entropy_reward import RunningLogProb
from rlkit_sac.objectives.sac.factors import (
    ContinuousFactor,
    DiscreteFactor,
    Factor,
    factor_key,
    make_factors,
)
from rlkit_sac.objectives.sac.options import SACOptions
from rlkit_sac.objectives.sac.parameter_mask import ParameterMask
from rlkit_sac.objectives.sac.priors import Priors
from rlkit_sac.objectives.sac.value_estimators import LAMBDAS, find_value_estimator
from rlkit_sac.objectives.transitions import TransitionKeys, unraveled


class CriticTerms(NamedTuple):
    """The terms of the critics' loss.

    Attributes:
        q: values ``[R, *, M]`` of the live critics for the actions of the batch.
        target: ``[*, M]``.
        losses: of each critic, ``[R, *]``.
        td_error: the priority ``[*]``, 0 in invalid steps.
    """

    q: Tensor
    target: Tensor
    losses: Tensor
    td_error: Tensor


class SoftActorCriticLoss(LossContract):
    """Critic, actor and temperature losses over a policy made of factors.

    A subclass defines the classes of its policy's factors and its critics.
    """

    @dataclass
    class _AcceptedKeys(LossContract._AcceptedKeys):
        value: NestedKey = "state_value"
        log_prob: NestedKey = "action_log_prob"
        priority: NestedKey = "td_error"

    default_keys = _AcceptedKeys
    tensor_keys: _AcceptedKeys
    default_value_estimator = ValueEstimators.TD0
    scalars: ClassVar[dict[str, Bound]] = {
        "gamma": UNIT,
        "qvalue_coef": NOT_NEGATIVE,
        "reward_scale": FINITE,
        "dqda_clipping": POSITIVE,
        "target_entropy": FINITE,
    }

    #: The kind of each factor by name, in the order of pairs of options.
    factor_kinds: ClassVar[tuple[tuple[str, type[Factor]], ...]]
    options_class: ClassVar[type[SACOptions]]
    #: The networks that have target networks.
    target_networks: tuple[str, ...]

    actor_network: TensorDictModule | None
    actor_network_params: TensorDictParams
    target_actor_network_params: TensorDictParams
    qvalue_network: TensorDictModule
    qvalue_network_params: TensorDictParams
    target_qvalue_network_params: TensorDictParams
    critics: Critics
    #: Whose first ``target_subset`` make the targets, as ranks agree upon it; None draws it.
    critic_order: Tensor | None
    lmbda: float
    qvalue_coef: float | Tensor
    dqda_clipping: float | Tensor | None

    def __init__(
        self,
        actor_network: TensorDictModule | None,
        qvalue_network: TensorDictModule | Sequence[TensorDictModule],
        arguments: Mapping[str, Any],
        *,
        with_targets: str = CRITICS,
    ) -> None:
        options = self.options_class(**arguments)
        self.target_networks = (with_targets,)
        super().__init__(
            options.reduction, options.scalar_output_mode, options.use_prioritized_weights
        )
        self.loss_function = options.loss_function
        self.qvalue_coef = options.qvalue_coef
        self.reward_scale = options.reward_scale
        self.dqda_clipping = getattr(options, "dqda_clipping", None)
        self.use_entropy_reward = options.use_entropy_reward
        self.policy_loss_steps = options.policy_loss_steps
        self.policy_reduction = options.policy_reduction
        self.deactivate_vmap = options.deactivate_vmap
        self.diagnostics = options.diagnostics
        self.observation_normalizer = options.observation_normalizer
        self.reward_normalizer = options.reward_normalizer

        if actor_network is None:
            self.actor_network = None
        else:
            refuse_batch_norm(actor_network, "actor_network")
            self.convert_to_functional(actor_network, "actor_network")
        members = critic_list(qvalue_network, options.num_qvalue_nets)
        self.num_qvalue_nets, self.target_subset = len(members), options.target_subset
        if self.target_subset is not None and not 1 <= self.target_subset <= len(members):
            raise ConfigError(
                f"target_subset is {self.target_subset}; it must be from 1 to the number of "
                f"critics ({len(members)}), or None for all"
            )
        self.register_buffer("critic_order", None, persistent=False)
        register_critics(self, members, with_targets=CRITICS in self.target_networks)
        self.burn_in = options.burn_in
        self._find_memory("actor_network")
        self._find_memory(CRITICS)

        like = next(self.qvalue_network_params.parameters())
        self.factors = make_factors(self.factor_kinds, options)
        mask = getattr(options, "parameter_mask", None)
        self.parameter_mask = None if mask is None else ParameterMask(mask).to(like)
        alpha_init = options.of_each("alpha_init", list(self.factors))
        for name, factor in self.factors.items():
            start = factor.temperature.initial_parameter(alpha_init[name])
            value = torch.tensor(start, dtype=like.dtype, device=like.device)
            if factor.fixed:
                self.register_buffer(factor.key("log_alpha"), value)
            else:
                self.register_parameter(factor.key("log_alpha"), nn.Parameter(value))
        self.priors = Priors(options, list(self.factors), like)
        self._reward_weights = RewardWeights()
        self.reward_weights = options.reward_weights
        self.entropy_centers = nn.ModuleDict()
        if options.normalize_entropy_reward:
            for factor in self.factors.values():
                center = RunningLogProb().to(dtype=like.dtype, device=like.device)
                self.entropy_centers[factor.key("log_prob")] = center
        self._set_actor_keys()
        self._set_targets(options.action_spec)
        self.critics = self._make_critics(options)
        self.make_value_estimator(gamma=options.gamma)

    @abstractmethod
    def _make_critics(self, options: Any) -> Critics:
        """The critics of this kind of policy."""

    def _of_critics(self, options: SACOptions) -> dict[str, Any]:
        """What critics of any kind are made of."""
        return {
            "network": self.qvalue_network,
            "keys": self.tensor_keys,
            "memory": self.recurrent.get(CRITICS),
            "normalizer": self.observation_normalizer,
            "weights": self._reward_weights,
            "loss_function": options.loss_function,
        }

    def _members(self, params: TensorDictBase) -> Members:
        """Critics with some parameters."""
        how = self.vmap_randomness, self.deactivate_vmap, self.compute_dtype
        return Members(self.qvalue_network, params, *how)

    def _draw_targets(self) -> TargetCritics:
        """All target critics, or a random subset, without replacement."""
        params = self.target_qvalue_network_params
        if self.target_subset in (None, self.num_qvalue_nets):
            return TargetCritics(self._members(params), None)
        order = self.critic_order
        if order is None:
            order = torch.randperm(self.num_qvalue_nets, device=next(params.buffers()).device)
        indices = order[: self.target_subset]
        subset = params.data.apply(
            lambda stacked: stacked.index_select(0, indices), batch_size=indices.shape
        )
        return TargetCritics(self._members(subset), indices)

    def _set_actor_keys(self) -> None:
        """Set the keys to those the actor writes."""
        if self.actor_network is not None:
            action, log_prob = actor_keys(self.actor_network)
            role = (self._continuous or self._discrete).role  # type: ignore[union-attr]
            self.set_keys(**{role: action, "log_prob": log_prob})

    def _set_targets(self, given: TensorSpec | None) -> None:
        """Find the spec and the target entropy of every factor."""
        of_actor = getattr(self.actor_network, "spec", None)
        several = len(self.factors) > 1
        self.specs: dict[str, TensorSpec | None] = {}
        for name, factor in list(self.factors.items()):
            key = self._action_key(factor)
            passed = hybrid_leaf(given, key) if several else given
            own = None if several and isinstance(factor, DiscreteFactor) else of_actor
            self.specs[factor.role] = spec = factor.spec(passed, own, key)
            prior = self.priors.get(name)
            target = None
            if not factor.fixed:
                target = factor.resolve_target(spec, None if prior is None else prior.prior)
            setattr(self, factor.key("target_entropy"), target)
            if not isinstance(factor.target, str):  # it may be a function, which pickle refuses
                self.factors[name] = replace(factor, target="resolved")

    @property
    def _continuous(self) -> ContinuousFactor | None:
        found = (each for each in self.factors.values() if isinstance(each, ContinuousFactor))
        return next(found, None)

    @property
    def _discrete(self) -> DiscreteFactor | None:
        found = (each for each in self.factors.values() if isinstance(each, DiscreteFactor))
        return next(found, None)

    # ------------------------------------------------------------------ the losses

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Losses and scalars of a batch ``[*]``, into which only the priority is written."""
        read, draw, next_draw, critics = self._critic_pass(tensordict)
        draws = {"first": (draw,), "next": (next_draw,), "all": (draw, next_draw)}
        drawn = [each for each in draws[self.policy_loss_steps] if each is not None]
        losses = {
            "loss_qvalue": self.qvalue_coef * critics.losses.sum(0),
            "loss_alpha": self._alpha_loss(drawn),
        }
        if self.actor_network is not None:
            losses["loss_actor"] = self._actor_loss(drawn)
        losses |= self._further_losses(draw)
        scalars = self._scalars(draw, read.valid)
        if self.diagnostics:
            scalars |= self._statistics(critics, draw, read.valid)
        return self._output(losses, scalars, tensordict)

    def qvalue_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of the critics alone, ``loss_qvalue`` of :meth:`forward`.

        Args:
            tensordict: ``[*]``; the priority is written into it.

        Returns:
            The loss, and ``td_error`` ``[*]``.
        """
        *_, critics = self._critic_pass(tensordict)
        loss = self.qvalue_coef * critics.losses.sum(0)
        return self._reduce_alone(loss, tensordict), {"td_error": critics.td_error}

    def actor_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of the actor alone, ``loss_actor`` of :meth:`forward`.

        Args:
            tensordict: ``[*]``, not modified.

        Returns:
            The loss, and the scalars of :meth:`forward`: temperatures, entropies, divergences.

        Raises:
            ConfigError: for a loss without an actor.
        """
        if self.actor_network is None:
            raise ConfigError(
                f"this {type(self).__name__} has no actor: its policy is that of the critics"
            )
        read, drawn = self._read_and_draw(tensordict)
        loss = self._reduce_alone(self._actor_loss(drawn), tensordict)
        return loss, self._scalars(drawn[0], read.valid)

    def alpha_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of the temperatures alone, ``loss_alpha`` of :meth:`forward`.

        Args:
            tensordict: ``[*]``, not modified.

        Returns:
            The loss, and the scalars of :meth:`forward`: temperatures, entropies, divergences.
        """
        read, drawn = self._read_and_draw(tensordict)
        loss = self._reduce_alone(self._alpha_loss(drawn), tensordict)
        return loss, self._scalars(drawn[0], read.valid)

    def _critic_pass(
        self, tensordict: TensorDictBase
    ) -> tuple[SACTransitions, PolicyDraw, PolicyDraw | None, CriticTerms]:
        """Read a batch, sample at its states and next states, and compute the critics' terms."""
        read = self._read(tensordict, with_targets=True)
        next_draw = self._next_draw(read)
        draw = self._draw(read.states)
        self._move_entropy_centers(draw, next_draw, read.valid)
        critics = self._critic_terms(read, draw, self._target(read, next_draw))
        tensordict.set(self.tensor_keys.priority, self._with_burn_in(critics.td_error))
        return read, draw, next_draw, critics

    def _critic_terms(self, read: SACTransitions, draw: PolicyDraw, target: Tensor) -> CriticTerms:
        live, continuous = self._members(self.qvalue_network_params), self._continuous
        like = None if continuous is None else draw.factors[continuous.name].action
        q = self.critics.of_taken(live, read.states, read.batch, like=like, q=draw.q)
        error = F.td_error(self.critics.scalar(q), target)
        if read.valid is not None:
            error = torch.where(read.valid, error, torch.zeros_like(error))
        return CriticTerms(self.critics.scalar(q), target, self.critics.loss(q, target), error)

    def _target(self, read: SACTransitions, next_draw: PolicyDraw | None) -> Tensor:
        """Targets ``[*, M]`` of the critics."""
        keys, batch, gamma, lmbda = self.tensor_keys, read.batch, self.gamma, self.lmbda
        reward = batch.get(("next", keys.reward))
        if self.reward_normalizer is not None:
            reward = self.reward_normalizer(reward)
        reward = self.reward_scale * reward
        terminated = batch.get(("next", keys.terminated)).bool()
        with torch.no_grad():
            value, bonus = self._next_value(read, next_draw, reward.shape[-1])
            if not lmbda:
                return F.soft_td_target(reward, terminated, value, gamma=gamma)
            cut = cut_steps(batch.get(("next", keys.done)).bool(), read.valid)
            return F.soft_lambda_return(
                reward, terminated, cut, value, bonus, gamma=gamma, lmbda=lmbda
            )

    def _next_value(
        self, read: SACTransitions, next_draw: PolicyDraw | None, reward_dim: int
    ) -> tuple[Tensor, Tensor]:
        """The soft value ``[*, M]`` of the next states, and the entropy bonus in it, ``[*, 1]``."""
        assert next_draw is not None
        targets = self._draw_targets() if read.targets is None else read.targets
        value = self.critics.target(targets, next_draw.inputs, next_draw.log_probs, reward_dim)
        bonus = self._entropy_bonus(next_draw).unsqueeze(-1)
        return F.soft_value(value, bonus), bonus

    def _entropy_bonus(self, draw: PolicyDraw) -> Tensor:
        """The entropy bonus of a state, ``[*]``; 0 without ``use_entropy_reward``."""
        log_ratios = [each.log_ratio for each in draw.factors.values()]
        if not self.use_entropy_reward:
            return torch.zeros_like(log_ratios[0])
        for place, name in enumerate(draw.factors):
            center = factor_key("log_prob", name)
            if center in self.entropy_centers:
                log_ratios[place] = self.entropy_centers[center](log_ratios[place])
        return F.entropy_bonus(log_ratios, map(self.alpha, draw.factors))

    def _actor_loss(self, drawn: Sequence[PolicyDraw]) -> Tensor:
        """Loss ``[*]`` of the actor, summed over the samples, without gradients for the critics."""
        first, *others = map(self._actor_loss_at, drawn)
        return sum(others, first)

    def _actor_loss_at(self, draw: PolicyDraw) -> Tensor:
        continuous, discrete, weights = self._continuous, self._discrete, self.reward_weights
        value = self._policy_value(draw)
        if continuous is None:
            assert discrete is not None
            drawn = draw.factors[discrete.name]
            assert drawn.log_probs is not None
            q, alpha = F.weigh_rewards(value, weights), self.alpha(discrete.name)
            return F.categorical_actor_loss(q, drawn.log_probs, alpha, drawn.log_prior_of_each)
        drawn = draw.factors[continuous.name]
        assert drawn.action is not None
        value = F.weigh_rewards(self.critics.expected(value, draw.log_probs), weights)
        value = F.clip_action_gradient(value, drawn.action, self.dqda_clipping)
        loss = F.actor_loss(value, drawn.log_ratio, self.alpha(continuous.name))
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

    def _policy_value(self, draw: PolicyDraw) -> Tensor:
        """The reduced value ``[*, (K,) M]`` of the live critics for the sampled action."""
        if draw.value is not None:
            return draw.value
        q = self.critics.values(self._members(self.qvalue_network_params.data), draw.inputs)
        return self.critics.reduced(q, self.policy_reduction)

    def _alpha_loss(self, drawn: Sequence[PolicyDraw]) -> Tensor:
        """Loss ``[*]`` of the temperatures, summed over the samples; 0 for fixed ones."""
        some = next(iter(drawn[0].factors.values())).neg_entropy
        loss = torch.zeros_like(some).detach()
        for name, factor in self.factors.items():
            if factor.fixed:
                continue
            resolved = getattr(self, factor.key("target_entropy"))
            target: float | Tensor = 0.0
            for draw in drawn:
                target = target + factor.target_at(resolved, draw.factors[name])
            log_ratios = torch.stack([draw.factors[name].log_ratio for draw in drawn])
            parameter = getattr(self, factor.key("log_alpha"))
            loss = loss + factor.temperature.loss(parameter, -log_ratios.sum(0), target)
        return loss

    def _further_losses(self, draw: PolicyDraw) -> dict[str, Tensor]:
        """Additional losses ``[*]`` of a subclass."""
        return {}

    def _scalars(self, draw: PolicyDraw, valid: Tensor | None) -> dict[str, Tensor]:
        """Temperatures, entropies and divergences from priors, means over the valid steps."""
        found = {}
        for name, factor in self.factors.items():
            drawn = draw.factors[name]
            found[factor.key("alpha")] = self.alpha(name)
            found[factor.key("entropy")] = F.masked_mean(-drawn.neg_entropy.detach(), valid)
            if drawn.log_prior is not None:
                found[factor.key("kl")] = F.masked_mean(drawn.log_ratio.detach(), valid)
        return found

    def _statistics(
        self, critics: CriticTerms, draw: PolicyDraw, valid: Tensor | None
    ) -> dict[str, Tensor]:
        """Statistics of the critics, for logs."""
        return critic_diagnostics(*critics, valid)

    # ------------------------------------------------------------------ the policy

    def _draw(self, states: TensorDictBase) -> PolicyDraw:
        """Sample from the live policy: the continuous action first, then the discrete one."""
        continuous, discrete = self._continuous, self._discrete
        draws: dict[str, Draw] = {}
        inputs = states
        if continuous is not None:
            drawn = continuous.draw(self._distribution(states), states.batch_size)
            key = self._action_key(continuous)
            inputs = states.copy().set(key, drawn.action)
            prior = self.priors.get(continuous.name)
            draws[continuous.name] = continuous.with_prior(drawn, prior, inputs, key)
        if discrete is None:
            return PolicyDraw(draws, inputs)
        live = self.qvalue_network_params
        if continuous is None:
            q: Tensor | None = self.critics.values(self._members(live), inputs)
            reducible = cast(Tensor, q).detach()
        else:
            q, reducible = None, self.critics.values(self._members(live.data), inputs)
        value = self.critics.reduced(reducible, self.policy_reduction)
        prior, count = self.priors.get(discrete.name), value.shape[-2]
        log_prior = None
        if prior is not None:
            key = self._action_key(discrete)
            log_prior = prior.log_prob_of_each_action(inputs, count, key)
        if continuous is None and self.actor_network is not None:
            log_probs = discrete.actor_log_probs(self._distribution(states), count)
        else:
            weighed = F.weigh_rewards(value.detach(), self.reward_weights)
            prior_of_each = None if log_prior is None else log_prior.detach()
            log_probs = F.boltzmann_log_prob(weighed, self.alpha(discrete.name), prior_of_each)
        draws = {discrete.name: discrete.draw(log_probs, log_prior)} | draws
        if continuous is not None and continuous.masked:
            assert self.parameter_mask is not None
            drawn = draws[continuous.name]
            draws[continuous.name] = continuous.weighed(drawn, log_probs, self.parameter_mask.mask)
        return PolicyDraw(draws, inputs, log_probs, q, value)

    def _next_draw(self, read: SACTransitions) -> PolicyDraw | None:
        """A sample at the next states, ``None`` if it is not needed."""
        with torch.set_grad_enabled(self.policy_loss_steps != "first" and torch.is_grad_enabled()):
            return self._draw(read.next_states)

    def _read_and_draw(self, tensordict: TensorDictBase) -> tuple[SACTransitions, list[PolicyDraw]]:
        """A batch, and samples at the states of the actor and temperature losses."""
        read, steps = self._read(tensordict), self.policy_loss_steps
        following = [self._draw(read.next_states)] if steps != "first" else []
        first = [self._draw(read.states)] if steps != "next" else []
        return read, [*first, *following]

    def _distribution(self, states: TensorDictBase) -> Distribution:
        """The actor's distribution at some states."""
        actor, dtype = self.actor_network, self.compute_dtype
        assert actor is not None
        head = self._head("actor_network")
        states = self._head_inputs("actor_network", self._normalized(states).copy())
        # TorchRL calls losses in the deterministic mode; a draw needs the random one.
        with (
            set_exploration_type(ExplorationType.RANDOM),
            self.actor_network_params.to_module(actor, preserve_module_state=False),
        ):
            if not torch.is_autocast_enabled(self._like.device.type):
                return head.get_dist(states)
            params = head.get_dist_params(states)
            raised = params.apply(lambda each: each.to(dtype) if each.is_floating_point() else each)
            return head.build_dist_from_params(raised)

    def alpha(self, factor: str = "") -> Tensor:
        """The temperature of a factor, a scalar within its bounds, without gradient."""
        return self.factors[factor].temperature.alpha(
            getattr(self, factor_key("log_alpha", factor))
        )

    def project_parameters(self) -> None:
        """Move the temperatures inside their bounds; call it after an optimizer step."""
        for factor in self.factors.values():
            factor.temperature.project_(getattr(self, factor.key("log_alpha")))

    def policy(self, *, epsilon: float | None = None) -> TensorDictModuleBase:
        """The acting policy, a module that shares this loss's live parameters.

        It follows TorchRL's exploration types, and can be passed to a collector or an evaluation.

        Args:
            epsilon: makes the deterministic mode epsilon-greedy, see
                :class:`~rlkit_sac.modules.EpsilonGreedy`; independently for each factor of the
                policy.
        """
        actor = critics = None
        if self.actor_network is not None:
            actor = self.get_stateful_net("actor_network")
        discrete = self._discrete
        if discrete is not None and (self._continuous is not None or actor is None):
            critics = BoltzmannPolicy(
                self._acting_critics(),
                getattr(self, discrete.key("log_alpha")),
                discrete.temperature,
                reward_weights=self._reward_weights,
                reduction=self.policy_reduction,
                prior=self.priors.get(discrete.name),
                action_key=self._action_key(discrete),
                action_value_key=self.critics.key(self.critics.role),
            )
        parts = [each for each in (actor, critics) if each is not None]
        return acting_policy(parts, self.observation_normalizer, epsilon=epsilon)

    def _acting_critics(self) -> TensorDictModuleBase:
        """The stack of critics, with the mask that they have in the losses."""
        critics, mask = self.get_stateful_net(CRITICS), self.critics.mask
        if mask is None:
            return critics
        return MaskedCritic(
            critics,
            mask.mask.expand(self.num_qvalue_nets, *mask.mask.shape),
            action_key=self.critics.key(self.critics.action_roles[0]),
            action_value_key=self.critics.key(self.critics.role),
        )

    # ------------------------------------------------------------------ changes during training

    @property
    def reward_weights(self) -> Tensor | None:
        """Weights ``[M]`` of a vector reward, ``None`` for ones; assign numbers to change them."""
        return self._reward_weights.value

    @reward_weights.setter
    def reward_weights(self, weights: Tensor | Sequence[float] | None) -> None:
        self._reward_weights.assign(weights, like=self._like)

    def set_scalar(self, option: str, value: float) -> None:
        """Change a number during training; a compiled update uses it without recompilation.

        Args:
            option: ``gamma``, ``qvalue_coef``, ``reward_scale``, ``dqda_clipping``,
                ``target_entropy``, or ``alpha_init`` of a fixed temperature.
            value: the new one.

        Raises:
            ConfigError: for an option that this loss does not have, or a value that it cannot have.
        """
        only = self.factors.get("")
        if option == "alpha_init" and only is not None and only.fixed:
            check_number(option, value, POSITIVE)
            self._like.fill_(only.temperature.initial_parameter(value))
        else:
            super().set_scalar(option, value)

    def observe(self, batch: TensorDictBase) -> None:
        """Update the running statistics of the normalizers, if any, with newly collected frames.

        Args:
            batch: each frame once, in order, ``[T]`` or ``[N, T]`` of N environments.
        """
        keys, following = self.tensor_keys, batch.get("next")
        if self.observation_normalizer is not None:
            self.observation_normalizer.observe(batch.get(self.observation_normalizer.key))
        if self.reward_normalizer is not None:
            self.reward_normalizer.observe(following.get(keys.reward), following.get(keys.done))

    def _move_entropy_centers(
        self, draw: PolicyDraw, next_draw: PolicyDraw | None, valid: Tensor | None
    ) -> None:
        for name, drawn in draw.factors.items():
            center = factor_key("log_prob", name)
            if center in self.entropy_centers:
                assert next_draw is not None
                both = 0.5 * (drawn.log_ratio + next_draw.factors[name].log_ratio)
                cast(RunningLogProb, self.entropy_centers[center]).move(both.detach(), valid)

    def make_value_estimator(
        self, value_type: ValueEstimators | str | None = None, **hyperparams: Any
    ) -> SoftActorCriticLoss:
        """Select the targets of the critics: the attributes ``gamma`` and ``lmbda``.

        Args:
            value_type: ``TD0`` (default), ``TD1`` or ``TDLambda``. The last two read ``[*, T]``
                sequences, time in the last batch dimension; n-step targets are ``TD1`` on slices
                of n steps.
            **hyperparams: ``gamma`` (default: the current one) and, for ``TDLambda``, ``lmbda``
                (default 0.95).

        Returns:
            The loss itself.

        Raises:
            NotImplementedError: for an estimator that is not defined for soft values.
            ConfigError: for an unknown hyperparameter or one outside [0, 1].
        """
        asked = self.default_value_estimator if value_type is None else value_type
        kind = find_value_estimator(asked, hyperparams)
        self._set_discounts({"lmbda": LAMBDAS[kind]} | hyperparams)
        self.value_type = kind
        return self

    def _networks(self) -> Iterable[TensorDictModuleBase]:
        return filter(None, (self.actor_network, self.qvalue_network))

    @property
    def _like(self) -> Tensor:
        return getattr(self, factor_key("log_alpha", next(iter(self.factors))))

    @property
    def compute_dtype(self) -> torch.dtype:
        """The dtype that losses are computed in, also under autocast."""
        return self._like.dtype

    def _apply(self, fn: Callable[[Tensor], Tensor]) -> SoftActorCriticLoss:
        # A cast replaces buffers, where it keeps parameters: policies would lose a fixed one.
        shared = [each.key("log_alpha") for each in self.factors.values() if each.fixed]
        before = {name: self._buffers[name] for name in shared}
        super()._apply(fn)
        for name, buffer in before.items():
            assert buffer is not None
            buffer.data = self._buffers[name]
            self._buffers[name] = buffer
        return self

    # ------------------------------------------------------------------ reading the batch

    def _read(self, tensordict: TensorDictBase, *, with_targets: bool = False) -> SACTransitions:
        self._check_network_keys()
        self._check_burn_in()
        sequential = "a network with a memory" if self.recurrent else None
        transitions = self._transitions.read(
            tensordict,
            self.in_keys,
            self._loss_mask_keys(),
            reward_weights=self.reward_weights,
            sequential="TD(lambda)" if self.lmbda else sequential,
        )
        remembering = with_targets and self.recurrent and CRITICS in self.target_networks
        targets = self._draw_targets() if remembering else None
        read = SACTransitions(**vars(transitions), targets=targets)
        return self._remember(tensordict, read, with_targets) if self.recurrent else read

    def _remember(
        self, tensordict: TensorDictBase, read: SACTransitions, with_targets: bool
    ) -> SACTransitions:
        """The steps after the burn-in, with what the memories of all networks remember there."""
        later, passes = self.policy_loss_steps != "first", []
        for name, network in self.recurrent.items():
            live = getattr(self, f"{name}_params")
            following = later or self._discrete is not None or name == "actor_network"
            passes.append(Pass(network, name, live, at_next_states=following, next_grad=later))
            if with_targets and name in self.target_networks:
                target = f"target_{name}"
                params, members = getattr(self, f"{target}_params"), None
                if name == CRITICS:
                    assert read.targets is not None
                    params, members = read.targets.members.params, read.targets.indices
                passes.append(Pass(network, target, params, members, at_states=False, grad=False))
        done = read.batch.get(("next", self.tensor_keys.done)).bool()
        vmap = {"randomness": self.vmap_randomness, "one_by_one": self.deactivate_vmap}
        return self._rows(tensordict, read, done).encode(read, passes, **vmap)

    def _transition_keys(self) -> TransitionKeys:
        factors = [each for each in (self._continuous, self._discrete) if each is not None]
        actions = {self._action_key(each): each.role for each in factors}
        return TransitionKeys(
            self.tensor_keys,
            actions,
            self._network_keys(),
            self.priors.in_keys,
            recurrent=bool(self.recurrent),
        )

    def _set_in_keys(self) -> list[NestedKey]:
        self._in_keys = self._transitions.in_keys()
        return self._in_keys

    def _check_network_keys(self) -> None:
        """Refuse networks that read or write unexpected entries."""
        self.critics.check_keys()
        actions = {self._action_key(each) for each in self.factors.values()}
        for name, network in self.recurrent.items():
            for key in unraveled(*network.embedding.in_keys, network.memory.in_keys[0]):
                if key in actions:
                    raise ConfigError(
                        f"the memory of {name} reads the action {key!r}, which enters after it: "
                        "let the head read it, and the embedding the action before, 'prev_action'"
                    )

    def _network_keys(self) -> list[NestedKey]:
        """Entries the networks read."""
        return [*self._keys_of("actor_network"), *self._keys_of(CRITICS)]

    def _keys_of(self, name: str) -> list[NestedKey]:
        """Entries that a network reads, but for the state of its memory."""
        network = self.recurrent.get(name, getattr(self, name))
        return [] if network is None else network.in_keys

    def _normalized(self, states: TensorDictBase) -> TensorDictBase:
        """States with normalized observations."""
        normalizer = self.observation_normalizer
        return states if normalizer is None else normalizer.normalized(states)

    def _action_key(self, factor: Factor) -> NestedKey:
        return unravel_key(getattr(self.tensor_keys, factor.role))

    def _loss_keys(self) -> list[str]:
        actor = [] if self.actor_network is None else ["loss_actor"]
        return [*actor, "loss_qvalue", "loss_alpha"]

    def _default_out_keys(self) -> list[str]:
        factors = self.factors.values()
        keys = [each.key(name) for name in ("alpha", "entropy") for each in factors]
        keys += [each.key("kl") for each in factors if self.priors.get(each.name) is not None]
        statistics = diagnostic_keys(self.num_qvalue_nets) if self.diagnostics else []
        return [*self._loss_keys(), *keys, *statistics]
