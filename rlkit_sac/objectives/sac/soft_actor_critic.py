"""The half that every loss of the soft actor-critic family shares."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, Literal, TypeVar, cast

import torch
from tensordict import TensorDictBase
from tensordict.nn import (
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictParams,
    TensorDictSequential,
    dispatch,
)
from tensordict.utils import unravel_key
from torch import Tensor, nn
from torchrl.data import TensorSpec
from torchrl.objectives.utils import _vmap_func, distance_loss

from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.functional import reduce_critics
from rlkit_sac.functional.critics import CriticReduction
from rlkit_sac.modules import EpsilonGreedy
from rlkit_sac.modules.ensemble import evaluate_perceptrons, perceptron_layers
from rlkit_sac.modules.normalization import (
    NormalizedPolicy,
    ObservationNormalizer,
    RewardNormalizer,
)
from rlkit_sac.modules.reward_weights import RewardWeights
from rlkit_sac.modules.temperature import AlphaParametrization
from rlkit_sac.objectives.checks.batch import check_entries, check_flag, check_reward, check_values
from rlkit_sac.objectives.checks.validity import cut_steps, fill_invalid, valid_steps
from rlkit_sac.objectives.contract import Reduction, ScalarOutputMode, check_choice
from rlkit_sac.objectives.sac.critics import critic_list, refuse_batch_norm
from rlkit_sac.objectives.sac.diagnostics import critic_diagnostics, diagnostic_keys, masked_mean
from rlkit_sac.objectives.sac.entropy_reward import RunningLogProb
from rlkit_sac.objectives.sac.factors import PerFactor, PolicySample, factor_key
from rlkit_sac.objectives.sac.priors import Priors, one_step_later
from rlkit_sac.objectives.sac.target_entropy import TargetEntropy
from rlkit_sac.objectives.sac.tempered import TemperedLoss

SampleT = TypeVar("SampleT", bound=PolicySample)

LossFunction = Literal["l2", "l1", "smooth_l1"]
#: Numbers of the losses that may change during a training, beside a fixed temperature.
SCALARS = ("gamma", "qvalue_coef", "reward_scale", "dqda_clipping", "target_entropy")

PolicyLossSteps = Literal["first", "next", "all"]


class SoftActorCriticLoss(TemperedLoss, Generic[SampleT]):
    """Critic, actor and temperature losses over a policy made of factors.

    A subclass names its policy's factors, draws from them, and says what the critics' values come
    to under them. The rest is here once: reduction over critics and reward dimensions, targets of
    transitions and sequences, temperatures, priorities. Options are documented with the subclasses.
    """

    #: The accepted key under which the critics write.
    value_role: ClassVar[str]
    #: Dimensions of the critics' values behind those of the batch.
    value_dims: ClassVar[int]

    def __init__(
        self,
        actor_network: TensorDictModule | None,
        qvalue_network: TensorDictModule | Sequence[TensorDictModule],
        *,
        num_qvalue_nets: int,
        gamma: float,
        loss_function: LossFunction,
        qvalue_coef: float,
        reward_scale: float,
        reward_weights: Tensor | Sequence[float] | None,
        alpha_init: PerFactor[float],
        min_alpha: PerFactor[float | None],
        max_alpha: PerFactor[float | None],
        fixed_alpha: PerFactor[bool],
        alpha_parametrization: PerFactor[AlphaParametrization],
        target_entropy: PerFactor[TargetEntropy],
        min_prob: float,
        prior_network: PerFactor[nn.Module | None],
        target_kld: PerFactor[float | None],
        action_spec: TensorSpec | None,
        use_entropy_reward: bool,
        normalize_entropy_reward: bool,
        policy_loss_steps: PolicyLossSteps,
        reduction: Reduction,
        scalar_output_mode: ScalarOutputMode | None,
        use_prioritized_weights: bool | Literal["auto"],
        deactivate_vmap: bool,
        diagnostics: bool,
        target_subset: int | None = None,
        policy_reduction: CriticReduction = "min",
        observation_normalizer: ObservationNormalizer | None = None,
        reward_normalizer: RewardNormalizer | None = None,
    ) -> None:
        super().__init__(reduction, scalar_output_mode, use_prioritized_weights)
        check_choice("loss_function", loss_function, ("l2", "l1", "smooth_l1"))
        check_choice("policy_reduction", policy_reduction, ("min", "mean"))
        check_choice("policy_loss_steps", policy_loss_steps, ("first", "next", "all"))
        if not 0 <= qvalue_coef < math.inf:
            raise ConfigError(f"qvalue_coef must be a finite number >= 0, not {qvalue_coef}")
        if not math.isfinite(reward_scale):
            raise ConfigError(f"reward_scale must be a finite number, not {reward_scale}")
        self.loss_function = loss_function
        self.qvalue_coef = qvalue_coef
        self.reward_scale = reward_scale
        self.use_entropy_reward = use_entropy_reward
        self.policy_loss_steps = policy_loss_steps
        self.deactivate_vmap = deactivate_vmap
        self.diagnostics = diagnostics

        if actor_network is None:
            self.actor_network = None
        else:
            refuse_batch_norm(actor_network, "actor_network")
            self.convert_to_functional(actor_network, "actor_network")
        self._stack_critics(critic_list(qvalue_network, num_qvalue_nets))
        if target_subset is not None and not 1 <= target_subset <= self.num_qvalue_nets:
            raise ConfigError(
                f"target_subset is {target_subset}; it must be from 1 to the number of critics "
                f"({self.num_qvalue_nets}), or None for all"
            )
        self.target_subset = target_subset
        self.policy_reduction = policy_reduction
        self.observation_normalizer = observation_normalizer
        self.reward_normalizer = reward_normalizer
        like = next(self.qvalue_network_params.parameters())
        self._make_temperatures(
            alpha_init, min_alpha, max_alpha, fixed_alpha, alpha_parametrization, like=like
        )
        self.priors = Priors(prior_network, self.factors, like)
        self._reward_weights = RewardWeights()
        self.reward_weights = reward_weights
        self.entropy_centers = nn.ModuleDict()
        if normalize_entropy_reward:
            for factor in self.factors:
                center = RunningLogProb().to(dtype=like.dtype, device=like.device)
                self.entropy_centers[factor_key("log_prob", factor)] = center
        self._set_actor_keys()
        self._use_action_specs(action_spec, getattr(actor_network, "spec", None))
        self._set_target_entropies(target_entropy, min_prob, target_kld)
        self.make_value_estimator(gamma=gamma)

    # ------------------------------------------------------------------ what a subclass decides

    @abstractmethod
    def _set_actor_keys(self) -> None:
        """Take over the keys the actor writes."""

    @abstractmethod
    def _use_action_specs(self, given: TensorSpec | None, of_actor: TensorSpec | None) -> None:
        """Check the spec that was passed and the actor's, and keep the one that counts."""

    @abstractmethod
    def _check_critic_keys(self) -> None:
        """Refuse critics that read the wrong parts of the action."""

    @abstractmethod
    def _sample_policy(self, states: TensorDictBase) -> SampleT:
        """Draw from the live policy at ``states``."""

    @abstractmethod
    def _sampled_values(
        self, states: TensorDictBase, sample: SampleT, params: TensorDictParams
    ) -> Tensor:
        """Values ``[R, *, (K,) M]`` of all critics for a draw from the policy."""

    @abstractmethod
    def _taken_values(
        self, states: TensorDictBase, batch: TensorDictBase, sample: SampleT
    ) -> Tensor:
        """Values ``[R, *, M]`` of the live critics for the action of the batch."""

    @abstractmethod
    def _expected_value(self, value: Tensor, sample: SampleT) -> Tensor:
        """What reduced values ``[*, (K,) M]`` come to under the policy, ``[*, M]``."""

    @abstractmethod
    def _actor_loss(self, states: TensorDictBase, sample: SampleT) -> Tensor:
        """Loss ``[*]`` of the actor, where there is one; critics get no gradient from it."""

    # ------------------------------------------------------------------ the losses

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Losses and scalars of a batch ``[*]``; the batch gains its priority and nothing else."""
        batch, valid = self._read(tensordict)
        states, next_states = self._states(batch), self._next_states(batch)
        next_sample = self._next_sample(next_states)
        sample = self._sample_policy(states)
        self._move_entropy_centers(sample, next_sample, valid)

        target = self._target(batch, next_states, next_sample, valid)
        values = self._taken_values(states, batch, sample)
        distances = distance_loss(values, target.expand_as(values), self.loss_function).mean(-1)
        td_error = (values.detach() - target).square().mean(-1).sum(0).sqrt()
        if valid is not None:
            td_error = torch.where(valid, td_error, torch.zeros_like(td_error))
        tensordict.set(self.tensor_keys.priority, td_error)

        draws: list[tuple[TensorDictBase, SampleT | None]]
        draws = [(states, sample), (next_states, next_sample)]
        span = {"first": slice(1), "next": slice(1, 2), "all": slice(2)}[self.policy_loss_steps]
        drawn = [(at, each) for at, each in draws[span] if each is not None]
        losses = {
            "loss_qvalue": self.qvalue_coef * distances.sum(0),
            "loss_alpha": self._alpha_loss([each for _, each in drawn]),
        }
        if self.actor_network is not None:
            first, *others = [self._actor_loss(*each) for each in drawn]
            losses["loss_actor"] = sum(others, first)
        losses |= self._further_losses(states, sample)
        scalars = {}
        for factor in self.factors:
            entropy = -sample.log_prob[factor].detach()
            scalars[factor_key("alpha", factor)] = self.alpha(factor)
            scalars[factor_key("entropy", factor)] = masked_mean(entropy, valid)
            if factor in sample.log_prior:
                divergence = sample.log_ratio(factor).detach()
                scalars[factor_key("kl", factor)] = masked_mean(divergence, valid)
        if self.diagnostics:
            scalars |= critic_diagnostics(values, target, distances, td_error, valid)
            scalars |= self._further_diagnostics(sample, valid)
        return self._output(losses, scalars, tensordict)

    def _next_sample(self, next_states: TensorDictBase) -> SampleT | None:
        """A draw from the live policy at the next states, ``None`` where nothing asks for one."""
        with torch.set_grad_enabled(self.policy_loss_steps != "first" and torch.is_grad_enabled()):
            return self._sample_policy(next_states)

    def _target(
        self,
        batch: TensorDictBase,
        next_states: TensorDictBase,
        next_sample: SampleT | None,
        valid: Tensor | None,
    ) -> Tensor:
        """Targets ``[*, M]`` of the critics."""
        keys, estimator = self.tensor_keys, self.value_estimator
        reward = batch.get(("next", keys.reward))
        if self.reward_normalizer is not None:
            reward = self.reward_normalizer(reward)
        reward = self.reward_scale * reward
        terminated = batch.get(("next", keys.terminated)).bool()
        with torch.no_grad():
            value, bonus = self._next_value(next_states, next_sample, reward.shape[-1])
            cut = None
            if estimator.lmbda:
                cut = cut_steps(batch.get(("next", keys.done)).bool(), valid)
            return estimator(reward, terminated, cut, value, bonus)

    def _next_value(
        self, next_states: TensorDictBase, next_sample: SampleT | None, reward_dim: int
    ) -> tuple[Tensor, Tensor]:
        r"""The value :math:`V = E[Q_{min}(s', a')] + b(s')`, ``[*, M]``, and b, ``[*, 1]``."""
        assert next_sample is not None
        q = self._sampled_values(next_states, next_sample, self._target_params())
        choices = q.shape[q.ndim - self.value_dims : -1]
        check_values(q, (*next_states.batch_size, *choices, reward_dim), reward_dim)
        bonus = self._entropy_bonus(next_sample).unsqueeze(-1)
        return self._expected_value(self._pessimistic(q), next_sample) + bonus, bonus

    def _further_losses(self, states: TensorDictBase, sample: SampleT) -> dict[str, Tensor]:
        """Losses ``[*]`` that only a subclass has."""
        return {}

    def _further_diagnostics(self, sample: SampleT, valid: Tensor | None) -> dict[str, Tensor]:
        """Statistics that only a subclass has."""
        return {}

    def _entropy_bonus(self, sample: SampleT) -> Tensor:
        r"""The entropy's share ``[*]`` in a state's value, :math:`-\sum_f\alpha_f\log\pi_f`."""
        bonus = torch.zeros_like(next(iter(sample.log_prob.values())))
        if not self.use_entropy_reward:
            return bonus
        for factor in sample.log_prob:
            log_ratio = sample.log_ratio(factor)
            name = factor_key("log_prob", factor)
            if name in self.entropy_centers:
                log_ratio = self.entropy_centers[name](log_ratio)
            bonus = bonus - self.alpha(factor) * log_ratio
        return bonus

    # ------------------------------------------------------------------ values

    def _target_params(self) -> TensorDictParams:
        """Of all target critics, or of some drawn anew without replacement."""
        params = self.target_qvalue_network_params
        if self.target_subset in (None, self.num_qvalue_nets):
            return params
        device = next(params.buffers()).device
        members = torch.randperm(self.num_qvalue_nets, device=device)[: self.target_subset]
        return params.data.apply(
            lambda stacked: stacked.index_select(0, members), batch_size=members.shape
        )

    def _critic_values(self, inputs: TensorDictBase, params: TensorDictParams) -> Tensor:
        """What all critics write for their inputs, with the given parameters, ``[R, *, ...]``."""
        network = self.qvalue_network
        key = unravel_key(getattr(self.tensor_keys, self.value_role))
        if key not in map(unravel_key, network.out_keys):
            raise BatchError(
                f"qvalue_network writes {network.out_keys}, not {key!r}: name its output so, or "
                f"name the right one with set_keys({self.value_role}=...)"
            )
        inputs = self._normalized(inputs)
        layers = None if self.deactivate_vmap else perceptron_layers(network)
        if layers is not None:
            weights = params.flatten_keys(".")
            return evaluate_perceptrons(
                layers, weights, torch.cat([inputs.get(name) for name in network.in_keys], -1)
            )
        critics = _vmap_func(
            network,
            (None, 0),
            randomness=self.vmap_randomness,
            pseudo_vmap=self.deactivate_vmap,
        )
        return critics(inputs.copy(), params).get(key)

    def _reduced_for_policy(self, q: Tensor) -> Tensor:
        """What the policy goes by, of R critics ``[R, *, M]`` in each reward dimension."""
        return self._reduced(q, self.policy_reduction)

    def _pessimistic(self, q: Tensor) -> Tensor:
        """The worst of R critics ``[R, *, M]`` in each reward dimension."""
        return self._reduced(q, "min")

    def _reduced(self, q: Tensor, reduction: CriticReduction) -> Tensor:
        weights = self.reward_weights
        if weights is not None and q.shape[-1] != len(weights):
            raise BatchError(
                f"qvalue_network wrote {q.shape[-1]} values for {len(weights)} reward_weights: a "
                "critic needs one output for each reward dimension"
            )
        return reduce_critics(q, weights, reduction)

    @property
    def reward_weights(self) -> Tensor | None:
        """Weights ``[M]`` of a vector reward, ``None`` for ones; assign numbers to change them."""
        return self._reward_weights.value

    @reward_weights.setter
    def reward_weights(self, weights: Tensor | Sequence[float] | None) -> None:
        like = getattr(self, factor_key("log_alpha", self.factors[0]))
        self._reward_weights.assign(weights, like=like)

    def set_scalar(self, option: str, value: float) -> None:
        """Change a number during a training; a compiled update follows it without a new graph.

        Args:
            option: ``gamma``, ``qvalue_coef``, ``reward_scale``, ``dqda_clipping``,
                ``target_entropy``, or ``alpha_init`` of a fixed temperature.
            value: the new one.

        Raises:
            ConfigError: for an option that this loss does not have.
        """
        like = getattr(self, factor_key("log_alpha", self.factors[0]))
        if option == "alpha_init" and self.fixed_factors == {""}:
            like.fill_(self.temperatures[""].initial_parameter(value))
            return
        holder = self.value_estimator if option == "gamma" else self
        if option not in SCALARS or not hasattr(holder, option):
            raise ConfigError(f"{type(self).__name__} has no number {option!r} that may change")
        self._change_number(holder, option, value, like)

    def train(self, mode: bool = True) -> SoftActorCriticLoss[SampleT]:
        """Set training mode here and in the networks (dropout, running statistics)."""
        super().train(mode)
        for network in (self.actor_network, self.qvalue_network):
            if network is not None:
                network.train(mode)
        return self

    # ------------------------------------------------------------------ acting

    def policy(self, *, epsilon: float | None = None) -> TensorDictModuleBase:
        """The acting policy, a module that shares this loss's live parameters.

        It obeys TorchRL's exploration types and goes into a collector or an evaluation as it is.

        Args:
            epsilon: makes the deterministic mode epsilon-greedy, see
                :class:`~rlkit_sac.modules.EpsilonGreedy`; each factor of the policy draws for
                itself.
        """
        modules = self._acting_modules()
        if epsilon is not None:
            modules = [EpsilonGreedy(module, epsilon) for module in modules]
        policy = modules[0] if len(modules) == 1 else TensorDictSequential(*modules)
        normalizer = self.observation_normalizer
        return policy if normalizer is None else NormalizedPolicy(policy, normalizer)

    def _acting_modules(self) -> list[TensorDictModuleBase]:
        """One module for each factor, in the order of acting."""
        return [self.get_stateful_net("actor_network")]

    # ------------------------------------------------------------------ statistics

    def observe(self, batch: TensorDictBase) -> None:
        """Take newly collected frames into the running statistics of the normalizers, if any.

        Args:
            batch: each frame once, in their order, ``[T]`` or ``[N, T]`` of N environments.
        """
        keys, following = self.tensor_keys, batch.get("next")
        if self.observation_normalizer is not None:
            self.observation_normalizer.observe(batch.get(self.observation_normalizer.key))
        if self.reward_normalizer is not None:
            self.reward_normalizer.observe(following.get(keys.reward), following.get(keys.done))

    # ------------------------------------------------------------------ reading the batch

    def _read(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, Tensor | None]:
        """The entries the losses need, checked, with zeros in invalid steps; and the mask."""
        keys = self.tensor_keys
        self._check_critic_keys()
        done = unravel_key(("next", keys.done))
        sequential = self.value_estimator.lmbda > 0
        # A one-step target has no use for `done`: only `terminated` stops the bootstrap.
        required = [key for key in self.in_keys if sequential or key != done]
        roles = {
            unravel_key(("next", getattr(keys, role))): role
            for role in ("reward", "done", "terminated")
        } | {unravel_key(getattr(keys, role)): role for role in self.action_roles}
        check_entries(tensordict, required, roles)
        if sequential and not tensordict.ndim:
            raise BatchError(
                "TD(lambda) needs sequences [*, T], but the batch has no dimension for time"
            )
        if sequential and tensordict.ndim == 1 and tensordict.get("index", None) is not None:
            raise BatchError(
                "TD(lambda) needs sequences [*, T], but the batch is a flat sample "
                f"[{len(tensordict)}] from replay, whose transitions do not follow each other: "
                "draw slices (slice_length) or reshape them to [B, T]"
            )
        for role in ("terminated", "done")[: 1 + sequential]:
            check_flag(tensordict, ("next", getattr(keys, role)), role)
        check_reward(tensordict.get(("next", keys.reward)), self.reward_weights, tensordict)
        valid = valid_steps(tensordict, self._loss_mask_keys())
        return fill_invalid(tensordict.select(*required), valid), valid

    def _normalized(self, states: TensorDictBase) -> TensorDictBase:
        """States as the networks see them."""
        normalizer = self.observation_normalizer
        return states if normalizer is None else normalizer.normalized(states)

    def _states(self, batch: TensorDictBase) -> TensorDictBase:
        return batch.select(*self._state_keys())

    def _next_states(self, batch: TensorDictBase) -> TensorDictBase:
        held = self._next_state_keys()
        states = batch.get("next").select(*held)
        for key in self._state_keys():
            if key not in held:
                states.set(key, one_step_later(key, batch, self._action_keys()))
        return states

    def _move_entropy_centers(
        self, sample: SampleT, next_sample: SampleT | None, valid: Tensor | None
    ) -> None:
        for factor in self.factors:
            name = factor_key("log_prob", factor)
            if name in self.entropy_centers:
                assert next_sample is not None
                both = 0.5 * (sample.log_ratio(factor) + next_sample.log_ratio(factor))
                cast(RunningLogProb, self.entropy_centers[name]).move(both.detach(), valid)

    def _default_out_keys(self) -> list[str]:
        keys = [] if self.actor_network is None else ["loss_actor"]
        keys += ["loss_qvalue", "loss_alpha"]
        keys += [
            factor_key(name, factor) for name in ("alpha", "entropy") for factor in self.factors
        ]
        with_prior = [factor for factor in self.factors if self.priors.get(factor) is not None]
        keys += [factor_key("kl", factor) for factor in with_prior]
        return keys + (diagnostic_keys(self.num_qvalue_nets) if self.diagnostics else [])
