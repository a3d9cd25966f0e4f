"""The half that every loss of the soft actor-critic family shares."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictParams, dispatch
from tensordict.utils import unravel_key
from torch import Tensor, nn
from torchrl.data import TensorSpec
from torchrl.objectives.utils import _vmap_func, distance_loss

from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.functional import clip_action_gradient, reduce_replicas, weigh_rewards
from rlkit_sac.objectives.batch import check_action, check_entries, check_flag, check_reward
from rlkit_sac.objectives.contract import (
    Reduction,
    ScalarOutputMode,
    SoftLossContract,
    check_choice,
)
from rlkit_sac.objectives.critics import DEFAULT_COUNT, critic_list, refuse_batch_norm
from rlkit_sac.objectives.diagnostics import critic_diagnostics, diagnostic_keys, masked_mean
from rlkit_sac.objectives.entropy_reward import RunningLogProb
from rlkit_sac.objectives.target_entropy import TargetEntropy
from rlkit_sac.objectives.temperature import AlphaParametrization, Temperature
from rlkit_sac.objectives.validity import cut_steps, fill_invalid, valid_steps


@dataclass(frozen=True)
class PolicySample:
    """What one draw from the policy at a batch of states gives to every loss.

    Attributes:
        action: the reparameterized action the critics read, ``[*, D]``.
        log_prob: for each factor of the policy its log-probability ``[*]`` in nats.
    """

    action: Tensor
    log_prob: dict[str, Tensor]

    def detach(self) -> PolicySample:
        """The same numbers without a graph."""
        log_prob = {factor: value.detach() for factor, value in self.log_prob.items()}
        return PolicySample(self.action.detach(), log_prob)


class SoftActorCriticLoss(SoftLossContract):
    """Critic, actor and temperature losses over a policy made of factors.

    A subclass names its policy's factors, draws from them, and says what the critics' values come
    to under them. The rest is here once: reduction over critics and reward dimensions, targets of
    transitions and sequences, temperatures, priorities. Options are documented with the subclasses.
    """

    #: Suffixes of the policy's factors in the names of parameters, options and outputs; a policy
    #: of a single factor has the empty one.
    factors: ClassVar[tuple[str, ...]] = ("",)
    #: The factors whose samples carry a gradient to the actor.
    reparameterized_factors: ClassVar[tuple[str, ...]] = ("",)

    _reward_weights: Tensor | None

    def __init__(
        self,
        actor_network: TensorDictModule,
        qvalue_network: TensorDictModule | Sequence[TensorDictModule],
        *,
        num_qvalue_nets: int = DEFAULT_COUNT,
        gamma: float = 0.99,
        loss_function: Literal["l2", "l1", "smooth_l1"] = "l2",
        qvalue_coef: float = 1.0,
        reward_scale: float = 1.0,
        reward_weights: Tensor | Sequence[float] | None = None,
        alpha_init: float = 1.0,
        min_alpha: float | None = None,
        max_alpha: float | None = None,
        fixed_alpha: bool = False,
        alpha_parametrization: AlphaParametrization = "log",
        target_entropy: TargetEntropy = "auto",
        min_prob: float = 0.1,
        action_spec: TensorSpec | None = None,
        dqda_clipping: float | None = None,
        use_entropy_reward: bool = True,
        normalize_entropy_reward: bool = False,
        policy_loss_steps: Literal["first", "all"] = "first",
        reduction: Reduction = "mean",
        scalar_output_mode: ScalarOutputMode | None = None,
        use_prioritized_weights: bool | Literal["auto"] = "auto",
        deactivate_vmap: bool = False,
        diagnostics: bool = False,
    ) -> None:
        super().__init__(reduction, scalar_output_mode, use_prioritized_weights)
        check_choice("loss_function", loss_function, ("l2", "l1", "smooth_l1"))
        check_choice("policy_loss_steps", policy_loss_steps, ("first", "all"))
        if dqda_clipping is not None and not dqda_clipping >= 0:
            raise ConfigError(f"dqda_clipping must be None or a bound >= 0, not {dqda_clipping}")
        if not 0 <= qvalue_coef < math.inf:
            raise ConfigError(f"qvalue_coef must be a finite number >= 0, not {qvalue_coef}")
        if not math.isfinite(reward_scale):
            raise ConfigError(f"reward_scale must be a finite number, not {reward_scale}")
        self.loss_function = loss_function
        self.qvalue_coef = qvalue_coef
        self.reward_scale = reward_scale
        self.dqda_clipping = dqda_clipping
        self.use_entropy_reward = use_entropy_reward
        self.policy_loss_steps = policy_loss_steps
        self.deactivate_vmap = deactivate_vmap
        self.diagnostics = diagnostics

        refuse_batch_norm(actor_network, "actor_network")
        self.convert_to_functional(actor_network, "actor_network")
        self._stack_critics(critic_list(qvalue_network, num_qvalue_nets))
        reference = next(self.actor_network_params.parameters())
        options = {"dtype": reference.dtype, "device": reference.device}

        self.temperature = Temperature(alpha_parametrization, min_alpha, max_alpha)
        self.fixed_alpha = fixed_alpha
        for factor in self.factors:
            start = torch.tensor(self.temperature.initial_parameter(alpha_init), **options)
            if fixed_alpha:
                self.register_buffer(f"log_alpha{factor}", start)
            else:
                self.register_parameter(f"log_alpha{factor}", nn.Parameter(start))
        self.register_buffer("_reward_weights", None, persistent=False)
        self.reward_weights = reward_weights
        self.entropy_centers = nn.ModuleDict()
        if normalize_entropy_reward:
            for factor in self.factors:
                self.entropy_centers[f"log_prob{factor}"] = RunningLogProb().to(**options)
        self._set_actor_keys()
        self._use_action_specs(action_spec, getattr(actor_network, "spec", None))
        if not fixed_alpha:
            self._set_target_entropies(target_entropy, min_prob)
        self.make_value_estimator(gamma=gamma)

    def _stack_critics(self, critics: list[nn.Module]) -> None:
        for critic in critics:
            if not hasattr(critic, "in_keys"):
                raise ConfigError(
                    f"qvalue_network is a {type(critic).__name__} without in_keys: wrap it in a "
                    "TensorDictModule that reads the observation and the action"
                )
        self.num_qvalue_nets = len(critics)
        alone = len(critics) == 1
        # TorchRL makes a list of one a view of the network's own parameters, which no optimizer of
        # this loss would see; given the network itself it makes parameters, but redraws them.
        self.convert_to_functional(
            critics[0] if alone else critics,
            "qvalue_network",
            len(critics),
            create_target_params=True,
        )
        if alone:
            initial = TensorDict.from_module(critics[0]).data.unsqueeze(0)
            self.qvalue_network_params.data.copy_(initial)
            self._modules["target_qvalue_network_params"].data.copy_(initial)
            for name, parameter in critics[0].named_parameters():
                key = tuple(name.split("."))
                self.qvalue_network_params.get(key).requires_grad_(parameter.requires_grad)

    # ------------------------------------------------------------------ what a subclass decides

    @abstractmethod
    def _set_actor_keys(self) -> None:
        """Take over the keys the actor writes."""

    @abstractmethod
    def _use_action_specs(self, given: TensorSpec | None, of_actor: TensorSpec | None) -> None:
        """Check the spec that was passed and the actor's, and keep the one that counts."""

    @abstractmethod
    def _set_target_entropies(self, option: TargetEntropy, min_prob: float) -> None:
        """Set ``target_entropy{factor}`` for every factor."""

    @abstractmethod
    def _sample_policy(self, states: TensorDictBase) -> PolicySample:
        """Draw from the live policy at ``states``."""

    # ------------------------------------------------------------------ the losses

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Losses and scalars of a batch ``[*]``; the batch gains its priority and nothing else."""
        batch, valid = self._read(tensordict)
        states, next_states = self._states(batch), self._states(batch.get("next"))
        on_next_states = self.policy_loss_steps == "all"

        with torch.set_grad_enabled(on_next_states and torch.is_grad_enabled()):
            next_sample = self._sample_policy(next_states)
        sample = self._sample_policy(states)
        self._move_entropy_centers(sample.detach(), next_sample.detach(), valid)

        target = self._target(batch, next_states, next_sample.detach(), valid)
        action = batch.get(self.tensor_keys.action)
        check_action(action, sample.action, self.tensor_keys.action)
        values = self._action_values(states, action, self.qvalue_network_params)
        distances = distance_loss(values, target.expand_as(values), self.loss_function).mean(-1)
        td_error = (values.detach() - target).square().mean(-1).sum(0).sqrt()
        if valid is not None:
            td_error = torch.where(valid, td_error, torch.zeros_like(td_error))
        tensordict.set(self.tensor_keys.priority, td_error)

        losses = {
            "loss_actor": self._actor_loss(states, sample),
            "loss_qvalue": self.qvalue_coef * distances.sum(0),
            "loss_alpha": self._alpha_loss([sample, next_sample] if on_next_states else [sample]),
        }
        if on_next_states:
            losses["loss_actor"] = losses["loss_actor"] + self._actor_loss(next_states, next_sample)
        scalars = {}
        for factor, log_prob in sample.detach().log_prob.items():
            scalars[f"alpha{factor}"] = self.alpha(factor)
            scalars[f"entropy{factor}"] = masked_mean(-log_prob, valid)
        if self.diagnostics:
            scalars |= critic_diagnostics(values, target, distances, td_error, valid)
        return self._output(losses, scalars, tensordict)

    def _target(
        self,
        batch: TensorDictBase,
        next_states: TensorDictBase,
        next_sample: PolicySample,
        valid: Tensor | None,
    ) -> Tensor:
        r"""Targets ``[*, M]`` with :math:`V = Q_{min}(s', a') - \sum_f\alpha_f\log\pi_f(a'|s')`."""
        keys, estimator = self.tensor_keys, self.value_estimator
        reward = self.reward_scale * batch.get(("next", keys.reward))
        terminated = batch.get(("next", keys.terminated)).bool()
        with torch.no_grad():
            q = self._action_values(
                next_states, next_sample.action, self.target_qvalue_network_params
            )
            check_reward(reward, q, self.reward_weights, batch)
            bonus = self._entropy_bonus(next_sample).unsqueeze(-1)
            value = self._expected_value(reduce_replicas(q, self.reward_weights), next_sample)
            cut = None
            if estimator.lmbda:
                cut = cut_steps(batch.get(("next", keys.done)).bool(), valid)
            return estimator(reward, terminated, cut, value + bonus, bonus)

    def _entropy_bonus(self, sample: PolicySample) -> Tensor:
        """The entropy's share ``[*]`` in the value of a state, in units of reward."""
        bonus = torch.zeros_like(next(iter(sample.log_prob.values())))
        if not self.use_entropy_reward:
            return bonus
        for factor, log_prob in sample.log_prob.items():
            name = f"log_prob{factor}"
            if name in self.entropy_centers:
                log_prob = self.entropy_centers[name](log_prob)
            bonus = bonus - self.alpha(factor) * log_prob
        return bonus

    def _actor_loss(self, states: TensorDictBase, sample: PolicySample) -> Tensor:
        r"""Loss ``[*]``: :math:`\sum_f \alpha_f \log\pi_f(a|s) - Q_{min}(s, a)`."""
        q = self._action_values(states, sample.action, self.qvalue_network_params.data)
        value = self._expected_value(reduce_replicas(q, self.reward_weights), sample)
        value = weigh_rewards(value, self.reward_weights)
        loss = -clip_action_gradient(value, sample.action, self.dqda_clipping)
        for factor in self.reparameterized_factors:
            loss = loss + self.alpha(factor) * sample.log_prob[factor]
        return loss

    def _alpha_loss(self, samples: list[PolicySample]) -> Tensor:
        """Loss ``[*]`` of the temperatures, added over the samples; zero where they are fixed."""
        loss = torch.zeros_like(samples[0].log_prob[self.factors[0]]).detach()
        if self.fixed_alpha:
            return loss
        for factor in self.factors:
            parameter = getattr(self, f"log_alpha{factor}")
            target = getattr(self, f"target_entropy{factor}") * len(samples)
            neg_log_prob = -torch.stack([sample.log_prob[factor] for sample in samples]).sum(0)
            loss = loss + self.temperature.loss(parameter, neg_log_prob, target)
        return loss

    # ------------------------------------------------------------------ values

    def _action_values(
        self, states: TensorDictBase, action: Tensor, params: TensorDictParams
    ) -> Tensor:
        """Values ``[R, *, M]`` of all critics with the given parameters."""
        key = self.tensor_keys.action
        critics = _vmap_func(
            self.qvalue_network,
            (None, 0),
            randomness=self.vmap_randomness,
            pseudo_vmap=self.deactivate_vmap,
        )
        out = critics(states.copy().set(key, action), params)
        values = out.get(self.tensor_keys.state_action_value, None)
        if values is None:
            raise BatchError(
                f"qvalue_network writes {self.qvalue_network.out_keys}, not "
                f"{self.tensor_keys.state_action_value!r}: name its output so, or name the right "
                "one with set_keys(state_action_value=...)"
            )
        return values

    def _expected_value(self, value: Tensor, sample: PolicySample) -> Tensor:
        """What the reduced values of a sample come to under the policy, ``[*, M]``."""
        return value

    def alpha(self, factor: str = "") -> Tensor:
        """The temperature of a factor, a scalar within its bounds, without gradient."""
        return self.temperature.alpha(getattr(self, f"log_alpha{factor}"))

    @property
    def reward_weights(self) -> Tensor | None:
        """Weights ``[M]`` of a vector reward, ``None`` for ones; assign numbers to change them."""
        return self._reward_weights

    @reward_weights.setter
    def reward_weights(self, weights: Tensor | Sequence[float] | None) -> None:
        if weights is not None:
            reference = getattr(self, f"log_alpha{self.factors[0]}")
            weights = torch.as_tensor(weights, dtype=reference.dtype, device=reference.device)
            weights = weights.detach().clone()
            if weights.ndim != 1 or not bool(weights.isfinite().all()):
                raise ConfigError(
                    f"reward_weights must be a list of finite numbers, one for each reward "
                    f"dimension, not {weights.tolist()}"
                )
        self._reward_weights = weights

    def train(self, mode: bool = True) -> SoftActorCriticLoss:
        """Set training mode here and in the networks (dropout, running statistics)."""
        super().train(mode)
        for network in (self.actor_network, self.qvalue_network):
            network.train(mode)
        return self

    def project_parameters(self) -> None:
        """Move the temperatures inside their bounds; call it after an optimizer step."""
        for factor in self.factors:
            self.temperature.project_(getattr(self, f"log_alpha{factor}"))

    def policy(self) -> TensorDictModule:
        """The acting policy, a module that shares this loss's live parameters.

        It obeys TorchRL's exploration types and goes into a collector or an evaluation as it is.
        """
        return self.get_stateful_net("actor_network")

    # ------------------------------------------------------------------ reading the batch

    def _read(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, Tensor | None]:
        """The entries the losses need, checked, with zeros in invalid steps; and the mask."""
        keys = self.tensor_keys
        if unravel_key(keys.action) not in map(unravel_key, self.qvalue_network.in_keys):
            raise BatchError(
                f"qvalue_network reads {self.qvalue_network.in_keys}, not the action "
                f"{keys.action!r}, which is the key the actor writes unless set_keys(action=...) "
                "named another: let actor, critics and batch use one key"
            )
        done = unravel_key(("next", keys.done))
        sequential = self.value_estimator.lmbda > 0
        # A one-step target has no use for `done`: only `terminated` stops the bootstrap.
        required = [key for key in self.in_keys if sequential or key != done]
        roles = {
            unravel_key(("next", getattr(keys, role))): role
            for role in ("reward", "done", "terminated")
        } | {unravel_key(keys.action): "action"}
        check_entries(tensordict, required, roles)
        if sequential and not tensordict.ndim:
            raise BatchError(
                "TD(lambda) needs sequences [*, T], but the batch has no dimension for time"
            )
        for role in ("terminated", "done")[: 1 + sequential]:
            check_flag(tensordict, ("next", getattr(keys, role)), role)
        valid = valid_steps(tensordict, self._loss_mask_keys())
        return fill_invalid(tensordict.select(*required), valid), valid

    def _states(self, batch: TensorDictBase) -> TensorDictBase:
        return batch.select(*self._state_keys())

    def _move_entropy_centers(
        self, sample: PolicySample, next_sample: PolicySample, valid: Tensor | None
    ) -> None:
        for factor in self.factors:
            name = f"log_prob{factor}"
            if name in self.entropy_centers:
                both = 0.5 * (sample.log_prob[factor] + next_sample.log_prob[factor])
                cast(RunningLogProb, self.entropy_centers[name]).move(masked_mean(both, valid))

    def _default_out_keys(self) -> list[str]:
        keys = ["loss_actor", "loss_qvalue", "loss_alpha"]
        keys += [f"{name}{factor}" for factor in self.factors for name in ("alpha", "entropy")]
        return keys + (diagnostic_keys(self.num_qvalue_nets) if self.diagnostics else [])
