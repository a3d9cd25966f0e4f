"""The parts of a soft actor-critic loss: networks, factors, temperatures, priors, acting policy.

The update is in :mod:`~rlkit_sac.objectives.sac.soft_actor_critic`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from tensordict import NestedKey
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictParams
from tensordict.utils import unravel_key
from torch import Tensor, nn
from torchrl.data import TensorSpec
from torchrl.objectives import ValueEstimators

from rlkit_sac.config.loss import LossConfig
from rlkit_sac.config.options import NonNegativeFloat, PositiveFloat, check_values
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.behavior import BehaviorPolicy
from rlkit_sac.modules.boltzmann import BoltzmannPolicy
from rlkit_sac.modules.critics import RewardWeights
from rlkit_sac.modules.ensemble import make_ensemble
from rlkit_sac.modules.masked_critic import ParameterMask
from rlkit_sac.modules.priors.frozen import FrozenPrior
from rlkit_sac.modules.temperature import RunningLogProb
from rlkit_sac.modules.wrappers import acting_policy
from rlkit_sac.objectives.arguments import SACOptions, read_options
from rlkit_sac.objectives.checks import actor_output_keys, find_hybrid_part_spec
from rlkit_sac.objectives.contract import LossContract
from rlkit_sac.objectives.memory import MemoryPass
from rlkit_sac.objectives.sac.critics import CRITICS, Critics, CriticTerms, SACTransitions
from rlkit_sac.objectives.sac.diagnostics import critic_diagnostics, diagnostic_keys
from rlkit_sac.objectives.sac.factors import (
    NUMBER,
    ContinuousFactor,
    DiscreteFactor,
    Factor,
    PolicySample,
    make_factors,
    option_per_factor,
)
from rlkit_sac.objectives.sac.return_estimators import ReturnEstimator, make_return_estimator


class SACNetworks(LossContract):
    """A loss's actor, critics, factors, temperatures and priors, without the equations.

    The subclasses document the arguments.
    """

    @dataclass
    class _AcceptedKeys(LossContract._AcceptedKeys):
        value: NestedKey = "state_value"
        log_prob: NestedKey = "action_log_prob"
        priority: NestedKey = "td_error"

    default_keys = _AcceptedKeys
    tensor_keys: _AcceptedKeys
    default_value_estimator = ValueEstimators.TD0
    adjustable = LossContract.adjustable | {
        "qvalue_coef": NonNegativeFloat,
        "dqda_clipping": PositiveFloat,
        **{f"target_entropy{suffix}": float for suffix in ("", "_discrete", "_continuous")},
    }

    #: The name and the class of each factor, in the order of pairs of options.
    factor_kinds: ClassVar[tuple[tuple[str, type[Factor]], ...]]
    #: The section of a configuration with the options of this loss, and the other options.
    section: ClassVar[type[LossConfig]]
    options_class: ClassVar[type[SACOptions]]
    #: The networks that have target networks.
    target_networks: ClassVar[tuple[str, ...]] = (CRITICS,)

    actor_network: TensorDictModule | None
    actor_network_params: TensorDictParams
    target_actor_network_params: TensorDictParams
    qvalue_network: TensorDictModule
    qvalue_network_params: TensorDictParams
    target_qvalue_network_params: TensorDictParams
    #: A permutation of the critics that processes share. The first ``target_subset`` of it make the
    #: targets; ``None`` draws a permutation in each call.
    critic_order: Tensor | None
    #: The number of discrete actions, if it is known before the first batch.
    num_actions: int | None
    return_estimator: ReturnEstimator
    qvalue_coef: float | Tensor
    dqda_clipping: float | Tensor | None

    def __init__(
        self,
        actor_network: TensorDictModule | None,
        qvalue_network: TensorDictModule | Sequence[TensorDictModule],
        arguments: Mapping[str, Any],
        *,
        parameter_mask: Any = None,
    ) -> None:
        if isinstance(qvalue_network, Sequence | nn.ModuleList):
            arguments = {**arguments, "num_qvalue_nets": len(qvalue_network)}
        masked = parameter_mask is not None
        loss_options, options = read_options(type(self), arguments, mask=masked)
        critics = make_ensemble(qvalue_network, options.num_qvalue_nets)
        super().__init__(loss_options)
        self.qvalue_coef, self.reward_scale = options.qvalue_coef, options.reward_scale
        if hasattr(options, "dqda_clipping"):
            self.dqda_clipping = options.dqda_clipping
        self.use_entropy_reward = options.use_entropy_reward
        self.policy_loss_steps = options.policy_loss_steps
        self.deactivate_vmap = loss_options.deactivate_vmap

        self.actor_network = None
        if actor_network is not None:
            self._register_network("actor_network", actor_network)
        self.num_qvalue_nets, self.target_subset = len(critics), options.target_subset
        self.register_buffer("critic_order", None, persistent=False)
        has_targets = CRITICS in self.target_networks
        self._register_ensemble(CRITICS, critics, create_target_params=has_targets)
        self._share_encoder(loss_options.encoder_network)
        self._find_memories(self.network_names)

        reference = next(self.qvalue_network_params.parameters())
        self.factors = make_factors(self.factor_kinds, options)
        self.parameter_mask = ParameterMask(parameter_mask).to(reference) if masked else None
        self._copy_priors(loss_options.prior_network, reference)
        if actor_network is not None:
            action, log_prob = actor_output_keys(actor_network)
            *_, actor_factor = self.factors.values()  # with two factors, the continuous one
            self.set_keys(**{actor_factor.role: action, "log_prob": log_prob})
        self._register_temperatures(options, loss_options.action_spec, reference)
        factors = self.factors.values()
        self.continuous = next(
            (factor for factor in factors if isinstance(factor, ContinuousFactor)), None
        )
        self.discrete = next(
            (factor for factor in factors if isinstance(factor, DiscreteFactor)), None
        )
        self._reward_weights = RewardWeights()
        self.reward_weights = options.reward_weights
        centered = factors if options.normalize_entropy_reward else ()
        centers = {f"log_prob{factor.suffix}": RunningLogProb(reference) for factor in centered}
        self.entropy_centers = nn.ModuleDict(centers)
        continuous, discrete = self.continuous, self.discrete
        self.critics = Critics(
            self.qvalue_network,
            encoded=self._encoded_keys,
            memory=self.recurrent.get(CRITICS),
            normalizer=self.critic_normalizer or self.observation_normalizer,
            weights=self._reward_weights,
            loss_function=options.loss_function,
            reduction=options.policy_reduction,
            action_role=None if continuous is None else continuous.role,
            index_role=None if discrete is None else discrete.role,
            spec=None if discrete is None else self.specs[discrete.role],
            parameter_mask=self.parameter_mask if getattr(options, "mask_critics", False) else None,
        )
        self.critics.assign_keys(self.tensor_keys)
        lmbda = {"lmbda": options.lmbda} if options.lmbda else {}
        kind = ValueEstimators.TDLambda if lmbda else None
        self.make_value_estimator(kind, gamma=options.gamma, **lmbda)

    def _copy_priors(self, prior_network: Any, reference: Tensor) -> None:
        """Copy the priors: one prior over all factors, or one or ``None`` for each factor."""
        networks = {"": prior_network}  # a prior over all factors is copied once
        if isinstance(prior_network, tuple | list):
            networks = option_per_factor("prior_network", prior_network, list(self.factors))
        priors = {
            part: FrozenPrior(network, part=part).to(reference)
            for part, network in networks.items()
            if network is not None
        }
        names = {part: f"prior_{part}" if part else "prior" for part in priors}
        self.priors = nn.ModuleDict({names[part]: prior for part, prior in priors.items()})
        #: The prior of each factor.
        self.factor_priors = {name: priors.get(name, priors.get("")) for name in self.factors}
        self._prior_keys = [key for prior in priors.values() for key in prior.in_keys]

    def _register_temperatures(
        self, options: LossConfig, action_spec: TensorSpec | None, reference: Tensor
    ) -> None:
        """Register the temperature of each factor, and find the factor's spec and target entropy.

        The temperature's parameter, such as ``log_alpha_discrete``, is a buffer if it is fixed. The
        target becomes an attribute, such as ``target_entropy_discrete``. The attribute ``specs``
        holds the specs by accepted key.
        """
        alpha_init = getattr(options, "alpha_init")  # noqa: B009  (a field of the subclasses)
        starts = option_per_factor("alpha_init", alpha_init, list(self.factors))
        actor_spec, several = getattr(self.actor_network, "spec", None), len(starts) > 1
        self.specs: dict[str, TensorSpec | None] = {}
        blueprint = getattr(self.qvalue_network, "blueprint", None)
        self.num_actions = None if blueprint is None else blueprint["arguments"].get("num_actions")
        for name, factor in list(self.factors.items()):
            start = factor.temperature.initial_parameter(starts[name])
            parameter = reference.detach().new_full((), start)
            if factor.fixed:
                self.register_buffer(factor.parameter_name, parameter)
            else:
                self.register_parameter(factor.parameter_name, nn.Parameter(parameter))
            key, prior = self._action_key(factor), self.factor_priors[name]
            passed = find_hybrid_part_spec(action_spec, key) if several else action_spec
            factor_spec = None if several and isinstance(factor, DiscreteFactor) else actor_spec
            spec = self.specs[factor.role] = factor.find_spec(passed, factor_spec, key)
            self.num_actions = getattr(getattr(spec, "space", None), "n", self.num_actions)
            target = None
            if not factor.fixed:
                frozen = None if prior is None else prior.prior
                target = factor.resolve_target_entropy(spec, frozen, self.num_actions)
            setattr(self, f"target_entropy{factor.suffix}", target)
            if not isinstance(factor.target, str):  # a target may be a function, not picklable
                self.factors[name] = replace(factor, target=NUMBER)

    # ------------------------------------------------------------------ acting

    def policy(self, *, epsilon: float | None = None) -> TensorDictModuleBase:
        """Return the acting policy, a module that shares this loss's live parameters.

        Args:
            epsilon: the probability of a sample in the deterministic mode, separately in each
                factor of the policy, see :class:`~rlkit_sac.modules.EpsilonGreedy`. Default: 0.
        """
        parts: list[TensorDictModuleBase] = []
        discrete, critics, mask_key = self.discrete, self.critics, self.critics.action_mask_key
        if self.actor_network is not None:
            parts.append(self.get_stateful_net("actor_network"))
            if self.continuous is None and mask_key is not None:
                parts = [BehaviorPolicy(parts[0], ("logits",), mask_key)]
        if discrete is not None and (self.continuous is not None or not parts):
            boltzmann = BoltzmannPolicy(
                critics.acting_critics(self.get_stateful_net(CRITICS)),
                getattr(self, discrete.parameter_name),
                discrete.temperature,
                reward_weights=critics.weights,
                reduction=critics.reduction,
                prior=self.factor_priors[discrete.name],
                action_key=unravel_key(critics.index_key),
                action_value_key=critics.value_key,
                mask_key=mask_key,
            )
            parts.append(boltzmann)
        shares = self.encoder_network is not None
        encoder = self.get_stateful_net("encoder_network") if shares else None
        return acting_policy(parts, self.observation_normalizer, epsilon=epsilon, encoder=encoder)

    # ------------------------------------------------------------------ numbers

    def project_parameters(self) -> None:
        """Move the temperatures inside their bounds; call it after an optimizer step."""
        for factor in self.factors.values():
            factor.temperature.project_(getattr(self, factor.parameter_name))

    @property
    def reward_weights(self) -> Tensor | None:
        """The weights ``[M]`` of a vector reward, ``None`` for ones. Assign them to change them."""
        return self._reward_weights.value

    @reward_weights.setter
    def reward_weights(self, weights: Tensor | Sequence[float] | None) -> None:
        self._reward_weights.assign(weights, self._reference)

    def set_scalar(self, option: str, value: float) -> None:
        """Change a number during training. ``alpha_init`` changes a fixed temperature.

        ``target_kld_per_dim`` and ``target_kld_discrete`` change the target divergence of a prior.
        Rewards of several steps cannot follow ``gamma``: the next call refuses them.
        """
        only = self.factors.get("")
        if option == "alpha_init" and only is not None and only.fixed:
            check_values({option: PositiveFloat}, {option: value})
            self.log_alpha.fill_(only.temperature.initial_parameter(value))
        elif option in ("target_kld_per_dim", "target_kld_discrete"):
            factor = self.discrete if option == "target_kld_discrete" else self.continuous
            if factor is None or factor.fixed or self.factor_priors[factor.name] is None:
                raise ConfigError(f"{option} needs a prior and a learned temperature")
            check_values({option: NonNegativeFloat}, {option: value})
            spec = None if factor is self.discrete else self.specs[factor.role]
            nats = value if spec is None else value * spec.shape.numel()
            super().set_scalar(f"target_entropy{factor.suffix}", -nats)
        else:
            super().set_scalar(option, value)

    def _diagnostics(
        self, sample: PolicySample, critics: CriticTerms, valid: Tensor | None
    ) -> dict[str, Tensor]:
        """Return statistics of the critics."""
        return critic_diagnostics(self.critics.head, critics, valid)

    def _update_mean_log_probs(
        self, sample: PolicySample, next_sample: PolicySample, valid: Tensor | None
    ) -> None:
        """Update the running means of log-probabilities with samples at s and s'."""
        for center, factor_sample, next_factor_sample in zip(
            self.entropy_centers.values(),
            sample.factors.values(),
            next_sample.factors.values(),
            strict=True,
        ):
            mean = 0.5 * (factor_sample.log_ratio + next_factor_sample.log_ratio)
            cast(RunningLogProb, center).update(mean.detach(), valid)

    def make_value_estimator(
        self, value_type: ValueEstimators | str | None = None, **hyperparams: Any
    ) -> SACNetworks:
        """Select the targets of the critics: the attributes ``gamma`` and ``return_estimator``.

        Args:
            value_type: ``TD0`` (default), ``TD1`` or ``TDLambda``. The last two read sequences
                ``[*, T]``, time in the last batch dimension. The targets of ``TD1`` reach to the
                end of a row of T steps: their horizons are T, T - 1, ..., 1.
            **hyperparams: ``gamma`` (default: the current one); for ``TDLambda`` also ``lmbda``
                (default: 0.95).

        Raises:
            NotImplementedError: for an estimator that is not defined for soft values.
            ConfigError: for an unknown hyperparameter or one outside [0, 1].
        """
        gamma, name = hyperparams.pop("gamma", None), value_type or self.default_value_estimator
        estimator = make_return_estimator(name, hyperparams)
        self._set_gamma(gamma)
        self.return_estimator, self.value_type = estimator, name
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor]) -> SACNetworks:
        # A cast keeps parameters but replaces buffers, so policies would lose a fixed temperature.
        fixed = [factor.parameter_name for factor in self.factors.values() if factor.fixed]
        buffers = {name: self._buffers[name] for name in fixed}
        super()._apply(fn)
        for name, buffer in buffers.items():
            assert buffer is not None
            buffer.data = self._buffers[name]
            self._buffers[name] = buffer
        return self

    # ------------------------------------------------------------------ keys

    def _action_key(self, factor: Factor) -> NestedKey:
        """Return the entry of a factor's action in the batch."""
        return unravel_key(getattr(self.tensor_keys, factor.role))

    @property
    def _action_roles(self) -> dict[NestedKey, str]:
        factors = filter(None, (self.continuous, self.discrete))
        return {self._action_key(factor): factor.role for factor in factors}

    def _check_network_keys(self) -> None:
        self.critics.check_keys()
        for name, network in self.recurrent.items():
            network.check_inputs(self._action_roles, name)

    def _forward_value_estimator_keys(self, **kwargs: Any) -> None:
        super()._forward_value_estimator_keys(**kwargs)
        if "critics" in vars(self):
            self.critics.assign_keys(self.tensor_keys)

    def _default_out_keys(self) -> list[str]:
        factors = self.factors.values()
        keys = [] if self.actor_network is None else ["loss_actor"]
        keys += ["loss_qvalue", "loss_alpha"]
        keys += [f"{name}{factor.suffix}" for name in ("alpha", "entropy") for factor in factors]
        keys += [f"kl{factor.suffix}" for factor in factors if self.factor_priors[factor.name]]
        if self.diagnostics:
            keys += diagnostic_keys(self.num_qvalue_nets, self.critics.head.diagnostics)
        return keys

    def _memory_passes(
        self, transitions: SACTransitions, with_targets: bool
    ) -> Iterator[MemoryPass]:
        next_grad = self.policy_loss_steps != "first"
        for name, network in self.recurrent.items():
            live = self._members(network.network, getattr(self, f"{name}_params"))
            at_next = next_grad or self.discrete is not None or name == "actor_network"
            trains = name == CRITICS
            yield MemoryPass(
                network, name, live, at_next_states=at_next, next_grad=next_grad, states_grad=trains
            )
            if with_targets and name in self.target_networks:
                target = f"target_{name}"
                members = transitions.target_critics
                if members is None:
                    members = self._members(network.network, getattr(self, f"{target}_params"))
                yield MemoryPass(network, target, members, at_states=False, grad=False)
