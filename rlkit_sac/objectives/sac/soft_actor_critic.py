"""The losses of soft actor-critic, for a policy of one or two factors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictParams, dispatch
from torch import Tensor, nn
from torchrl.objectives import ValueEstimators

from rlkit_sac import functional as F
from rlkit_sac.config.loss import LossConfig
from rlkit_sac.config.options import NonNegativeFloat, PositiveFloat, check_value
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.masked_critic import ParameterMask
from rlkit_sac.modules.reward_weights import RewardWeights
from rlkit_sac.modules.wrappers import acting_policy
from rlkit_sac.objectives.arguments import SACOptions, read_options
from rlkit_sac.objectives.checks import (
    actor_keys,
    check_reward,
    cut_steps,
    refuse_batch_norm,
)
from rlkit_sac.objectives.contract import LossContract, names_misfits
from rlkit_sac.objectives.members import Members, critic_list, register_critics
from rlkit_sac.objectives.memory import Pass
from rlkit_sac.objectives.sac.critics import (
    CRITICS,
    CriticTerms,
    SACTransitions,
    TargetCritics,
)
from rlkit_sac.objectives.sac.diagnostics import critic_diagnostics, diagnostic_keys
from rlkit_sac.objectives.sac.factors import (
    Factor,
    factor_key,
    make_factors,
    register_temperatures,
)
from rlkit_sac.objectives.sac.policy import (
    FactoredPolicy,
    PolicyDraw,
    Priors,
    RunningLogProb,
    actor_distribution,
    make_policy,
)
from rlkit_sac.objectives.sac.return_estimators import (
    Outcome,
    ReturnEstimator,
    Target,
    make_return_estimator,
)
from rlkit_sac.valid_steps import valid_steps


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
    scalars = LossContract.scalars | {
        "qvalue_coef": NonNegativeFloat,
        "dqda_clipping": PositiveFloat,
        "target_entropy": float,
    }

    #: The kind of each factor by name, in the order of pairs of options.
    factor_kinds: ClassVar[tuple[tuple[str, type[Factor]], ...]]
    #: The section of a configuration with the options of this loss, and further ones.
    section: ClassVar[type[LossConfig]]
    options_class: ClassVar[type[SACOptions]]
    #: The networks that have target networks.
    target_networks: tuple[str, ...]

    actor_network: TensorDictModule | None
    actor_network_params: TensorDictParams
    target_actor_network_params: TensorDictParams
    value_network: TensorDictModule | None
    qvalue_network: TensorDictModule
    qvalue_network_params: TensorDictParams
    target_qvalue_network_params: TensorDictParams
    #: Whose first ``target_subset`` make the targets, as ranks agree upon it; None draws it.
    critic_order: Tensor | None
    return_estimator: ReturnEstimator
    qvalue_coef: float | Tensor
    dqda_clipping: float | Tensor | None

    def __init__(
        self,
        actor_network: TensorDictModule | None,
        qvalue_network: TensorDictModule | Sequence[TensorDictModule],
        arguments: Mapping[str, Any],
        *,
        with_targets: str = CRITICS,
        parameter_mask: Any = None,
    ) -> None:
        if isinstance(qvalue_network, Sequence | nn.ModuleList):
            arguments = {**arguments, "num_qvalue_nets": len(qvalue_network)}
        given, options = read_options(type(self), arguments, mask=parameter_mask is not None)
        members = critic_list(qvalue_network, options.num_qvalue_nets)
        self.target_networks = (with_targets,)
        super().__init__(given)
        self.qvalue_coef = options.qvalue_coef
        self.reward_scale = options.reward_scale
        if hasattr(options, "dqda_clipping"):
            self.dqda_clipping = options.dqda_clipping
        self.loss_function = options.loss_function
        self.policy_loss_steps = options.policy_loss_steps
        self.deactivate_vmap = given.deactivate_vmap
        self.observation_normalizer = given.observation_normalizer
        self.critic_normalizer = given.critic_normalizer
        self.reward_normalizer = given.reward_normalizer

        self.actor_network = self.value_network = None
        if actor_network is not None:
            refuse_batch_norm(actor_network, "actor_network")
            self.convert_to_functional(actor_network, "actor_network")
            self.network_names = ("actor_network",)
        self.num_qvalue_nets, self.target_subset = len(members), options.target_subset
        self.register_buffer("critic_order", None, persistent=False)
        register_critics(self, members, with_targets=CRITICS in self.target_networks)
        self.network_names += (CRITICS,)
        self._share_encoder(given.encoder_network)
        for name in self.network_names:
            self._find_memory(name)

        like = next(self.qvalue_network_params.parameters())
        self.factors = make_factors(self.factor_kinds, options)
        masked = parameter_mask is not None
        self.parameter_mask = ParameterMask(parameter_mask).to(like) if masked else None
        self.priors = Priors(given.prior_network, list(self.factors), like)
        self._prior_keys = self.priors.in_keys
        if actor_network is not None:
            action, log_prob = actor_keys(actor_network)
            *_, acting = self.factors.values()  # of two factors the continuous one
            self.set_keys(**{acting.role: action, "log_prob": log_prob})
        register_temperatures(self, options, given.action_spec, like)
        self._reward_weights = RewardWeights()
        self.reward_weights = options.reward_weights
        centered = list(self.factors) if options.normalize_entropy_reward else []
        names = [factor_key("log_prob", name) for name in centered]
        self.entropy_centers = nn.ModuleDict({name: RunningLogProb(like) for name in names})
        self._make_policy = make_policy(self, options)
        self.critics = self._policy.critics
        lmbda = {"lmbda": options.lmbda} if options.lmbda else {}
        kind = ValueEstimators.TDLambda if lmbda else None
        self.make_value_estimator(kind, gamma=options.gamma, **lmbda)

    @property
    def _policy(self) -> FactoredPolicy:
        return self._make_policy(self._live, self.alpha)

    def _live(self) -> Members:
        return self._members(self.qvalue_network, self.qvalue_network_params)

    def _draw_targets(self) -> TargetCritics:
        members = self._members(self.qvalue_network, self.target_qvalue_network_params)
        return self.critics.targets(members, self.target_subset, self.critic_order)

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
        if draw.state_value is not None:
            losses["loss_value"] = self._policy.value_loss(draw)
        scalars = self._policy.scalars(draw, read.valid)
        if self.diagnostics:
            scalars |= critic_diagnostics(critics, draw.state_value, read.valid)
        return self._output(losses, scalars, tensordict)

    @names_misfits
    def qvalue_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """``loss_qvalue`` alone, with ``td_error`` ``[*]``, which is written into the batch."""
        *_, critics = self._critic_pass(tensordict)
        loss = self.qvalue_coef * critics.losses.sum(0)
        return self._reduce_alone(loss, tensordict), {"td_error": critics.td_error}

    @names_misfits
    def actor_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """``loss_actor`` alone, with the temperatures, entropies and divergences.

        With ``policy_loss_steps="next"`` the latter are those at the next states.

        Raises:
            ConfigError: for a loss without an actor.
        """
        if self.actor_network is None:
            raise ConfigError(
                f"this {type(self).__name__} has no actor: its policy is that of the critics"
            )
        return self._alone(self._actor_loss, tensordict)

    @names_misfits
    def alpha_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """``loss_alpha`` alone, with the temperatures, entropies and divergences."""
        return self._alone(self._alpha_loss, tensordict)

    def _alone(
        self, loss: Callable[[Sequence[PolicyDraw]], Tensor], tensordict: TensorDictBase
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """A loss of samples at the states of ``policy_loss_steps``, and its scalars."""
        read, steps = self._read(tensordict), self.policy_loss_steps
        following = [self._draw(read.next_states)] if steps != "first" else []
        drawn = [*([self._draw(read.states)] if steps != "next" else []), *following]
        scalars = self._policy.scalars(drawn[0], read.valid)
        return self._reduce_alone(loss(drawn), tensordict), scalars

    def _critic_pass(
        self, tensordict: TensorDictBase
    ) -> tuple[SACTransitions, PolicyDraw, PolicyDraw | None, CriticTerms]:
        """Read a batch, sample at its states and next states, and compute the critics' terms."""
        read = self._read(tensordict, with_targets=True)
        next_draw = self._next_draw(read)
        draw = self._draw(read.states)
        self._policy.move_centers(draw, next_draw, read.valid)
        continuous, target = self._policy.continuous, self._target(read, next_draw)
        like = None if continuous is None else draw.factors[continuous.name].action
        q = self.critics.of_taken(self._live(), read.states, read.batch, like=like, q=draw.q)
        critics = self.critics.terms(q, target, read.valid)
        tensordict.set(self.tensor_keys.priority, self._with_burn_in(critics.td_error))
        return read, draw, next_draw, critics

    def _target(self, read: SACTransitions, next_draw: PolicyDraw | None) -> Target:
        """The target of the critics."""
        keys, batch = self.tensor_keys, read.batch
        reward = batch.get(("next", keys.reward))
        steps = batch.get(keys.steps_to_next_obs, None)
        if steps is not None:
            if "gamma" in self._buffers:
                raise ConfigError("set_scalar cannot change gamma in rewards of several steps")
            steps = steps.reshape(*batch.batch_size, 1).to(reward.dtype)
        if self.reward_normalizer is not None:
            reward = self.reward_normalizer(reward, steps)
        reward = self.reward_scale * reward
        terminated = batch.get(("next", keys.terminated)).bool()
        done = batch.get(("next", keys.done), None)
        cut = None if done is None else cut_steps(done.bool(), read.valid)
        with torch.no_grad():
            value, bonus = self._next_value(read, next_draw, reward.shape[-1])
            outcome = Outcome(reward, terminated, cut, steps, value, bonus)
            return self.return_estimator.target(outcome, self.gamma)

    def _next_value(
        self, read: SACTransitions, next_draw: PolicyDraw | None, reward_dim: int
    ) -> tuple[Target, Tensor]:
        """The soft value of the next states, and the entropy bonus in it, ``[*, 1]``."""
        assert next_draw is not None
        targets = self._draw_targets() if read.targets is None else read.targets
        value = self.critics.target(targets, next_draw.inputs, next_draw.log_probs, reward_dim)
        bonus = self._policy.bonus(next_draw)
        return value._replace(values=F.soft_value(value.values, bonus)), bonus

    def _actor_loss(self, drawn: Sequence[PolicyDraw]) -> Tensor:
        """Loss ``[*]`` of the actor, summed over the samples, without gradients for the critics."""
        clipping = getattr(self, "dqda_clipping", None)
        first, *others = (self._policy.actor_loss(draw, clipping) for draw in drawn)
        return sum(others, first)

    def _alpha_loss(self, drawn: Sequence[PolicyDraw]) -> Tensor:
        """Loss ``[*]`` of the temperatures, summed over the samples; 0 for fixed ones."""
        loss = torch.zeros_like(next(iter(drawn[0].factors.values())).neg_entropy).detach()
        for name, factor in self.factors.items():
            if not factor.fixed:
                resolved = getattr(self, factor.key("target_entropy"))
                own = [draw.factors[name] for draw in drawn]
                loss = loss + factor.alpha_loss(self._log_alpha(name), resolved, own)
        return loss

    def _draw(self, states: TensorDictBase) -> PolicyDraw:
        dist = None
        if self.actor_network is not None:
            inputs = self._head_inputs("actor_network", self._normalized(states).copy())
            head, params = self._head("actor_network"), self.actor_network_params
            masked = getattr(self.tensor_keys, "action_mask", None) is not None
            dist = actor_distribution(self.actor_network, head, params, inputs, masked=masked)
        return self._policy.sample(states, dist)

    def _next_draw(self, read: SACTransitions) -> PolicyDraw | None:
        """A sample at the next states, ``None`` if it is not needed."""
        with torch.set_grad_enabled(self.policy_loss_steps != "first" and torch.is_grad_enabled()):
            return self._draw(read.next_states)

    def alpha(self, factor: str = "") -> Tensor:
        """The temperature of a factor, a scalar within its bounds, without gradient."""
        return self.factors[factor].temperature.alpha(self._log_alpha(factor))

    def _log_alpha(self, factor: str) -> Tensor:
        return getattr(self, factor_key("log_alpha", factor))

    def project_parameters(self) -> None:
        """Move the temperatures inside their bounds; call it after an optimizer step."""
        for name, factor in self.factors.items():
            factor.temperature.project_(self._log_alpha(name))

    def policy(self, *, epsilon: float | None = None) -> TensorDictModuleBase:
        """The acting policy, a module that shares this loss's live parameters.

        Args:
            epsilon: makes the deterministic mode epsilon-greedy in each factor of the policy, see
                :class:`~rlkit_sac.modules.EpsilonGreedy`.
        """
        acts = self.actor_network is not None
        parts = self._policy.acting(self.get_stateful_net, self._log_alpha, actor=acts)
        shares = self.encoder_network is not None
        encoder = self.get_stateful_net("encoder_network") if shares else None
        return acting_policy(parts, self.observation_normalizer, epsilon=epsilon, encoder=encoder)

    @property
    def reward_weights(self) -> Tensor | None:
        """Weights ``[M]`` of a vector reward, ``None`` for ones; assign numbers to change them."""
        return self._reward_weights.value

    @reward_weights.setter
    def reward_weights(self, weights: Tensor | Sequence[float] | None) -> None:
        self._reward_weights.assign(weights, like=self._like)

    def set_scalar(self, option: str, value: float) -> None:
        """As of every loss; ``alpha_init`` changes a fixed temperature.

        The reward normalizer follows ``gamma``. Rewards of several steps cannot, and are refused.
        """
        only = self.factors.get("")
        if option == "alpha_init" and only is not None and only.fixed:
            check_value(option, value, PositiveFloat)
            self._like.fill_(only.temperature.initial_parameter(value))
        else:
            super().set_scalar(option, value)
        if option == "gamma" and self.reward_normalizer is not None:
            self.reward_normalizer.gamma = float(value)

    def observe(self, batch: TensorDictBase) -> None:
        """Update the normalizers with new frames, ``[T]`` or ``[N, T]``, in order.

        Steps that ``("collector", "mask")`` excludes are left out.
        """
        keys, after = self.tensor_keys, batch.get("next")
        valid = valid_steps(batch, self._loss_mask_keys())
        states = batch if valid is None else batch[valid]
        for normalizer in (self.observation_normalizer, self.critic_normalizer):
            if normalizer is not None:
                normalizer.observe(states.get(normalizer.key))
        if self.reward_normalizer is not None:
            self.reward_normalizer.observe(after.get(keys.reward), after.get(keys.done), valid)

    def make_value_estimator(
        self, value_type: ValueEstimators | str | None = None, **hyperparams: Any
    ) -> SoftActorCriticLoss:
        """Select the targets of the critics: the attributes ``gamma`` and ``return_estimator``.

        Args:
            value_type: ``TD0`` (default), ``TD1`` or ``TDLambda``. The last two read ``[*, T]``
                sequences, time in the last batch dimension; the targets of ``TD1`` reach to the
                end of a row: of T steps they have horizons T, T - 1, ..., 1.
            **hyperparams: ``gamma`` (default: the current one); ``lmbda`` of ``TDLambda`` (0.95).

        Raises:
            NotImplementedError: for an estimator that is not defined for soft values.
            ConfigError: for an unknown hyperparameter or one outside [0, 1].
        """
        gamma, asked = hyperparams.pop("gamma", None), value_type or self.default_value_estimator
        estimator = make_return_estimator(asked, hyperparams)
        self._set_gamma(gamma)
        self.return_estimator, self.value_type = estimator, asked
        return self

    @property
    def _like(self) -> Tensor:
        return self._log_alpha(next(iter(self.factors)))

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

    def _read(self, tensordict: TensorDictBase, *, with_targets: bool = False) -> SACTransitions:
        self._check_network_keys()
        memory = "a network with a memory" if self.recurrent else ""
        transitions = self._transitions.read(
            tensordict,
            self.in_keys,
            valid_steps(tensordict, self._loss_mask_keys()),
            sequential=self.return_estimator.sequential or memory,
        )
        reward = transitions.batch.get(("next", self.tensor_keys.reward))
        check_reward(reward, self.reward_weights, transitions.batch)
        remembering = with_targets and self.recurrent and CRITICS in self.target_networks
        targets = self._draw_targets() if remembering else None
        read = SACTransitions(**vars(transitions), targets=targets)
        done = read.batch.get(("next", self.tensor_keys.done), None)
        return self._remember(tensordict, read, done, self._passes(read, with_targets))

    def _passes(self, read: SACTransitions, with_targets: bool) -> Iterator[Pass]:
        later = self.policy_loss_steps != "first"
        for name, network in self.recurrent.items():
            live = self._members(network.network, getattr(self, f"{name}_params"))
            following = later or self._policy.discrete is not None or name == "actor_network"
            trains = name == CRITICS
            yield Pass(
                network, name, live, at_next_states=following, next_grad=later, states_grad=trains
            )
            if with_targets and name in self.target_networks:
                target = f"target_{name}"
                whole = self._members(network.network, getattr(self, f"{target}_params"))
                members, indices = read.targets or (whole, None)
                yield Pass(network, target, members, indices, at_states=False, grad=False)

    @property
    def _actions(self) -> dict[NestedKey, str]:
        factors = filter(None, (self._policy.continuous, self._policy.discrete))
        return {each.action_key(self.tensor_keys): each.role for each in factors}

    def _check_network_keys(self) -> None:
        self.critics.check_keys()
        for name, network in self.recurrent.items():
            network.check_inputs(self._actions, name)

    def _default_out_keys(self) -> list[str]:
        factors, with_value = self.factors.values(), self.value_network is not None
        keys = [] if self.actor_network is None else ["loss_actor"]
        keys += ["loss_qvalue", "loss_alpha", *(["loss_value"] if with_value else [])]
        keys += [each.key(name) for name in ("alpha", "entropy") for each in factors]
        keys += [each.key("kl") for each in factors if self.priors.of(each.name) is not None]
        if self.diagnostics:
            further = self.critics.head.diagnostics
            keys += diagnostic_keys(self.num_qvalue_nets, further, with_value=with_value)
        return keys
