r"""One update of soft actor-critic, in the order of its equations.

:meth:`SoftActorCriticLoss.forward` and the methods that it calls here are the algorithm, for a
policy of a continuous factor, a discrete factor, or both. The equations are functions of
:mod:`rlkit_sac.functional.sac`, the soft-optimal policy over discrete actions is in
:mod:`rlkit_sac.functional.discrete`, and returns of several steps are in
:mod:`rlkit_sac.functional.returns`. Losses ``[*]`` are one number for each step; the mean over the
valid steps is in :class:`~rlkit_sac.objectives.contract.LossContract`.

The ``log_ratio`` of a sample is :math:`\log\pi - \log\pi^0` with a prior, and :math:`\log\pi`
without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import dispatch
from tensordict.utils import unravel_key
from torch import Tensor
from torch.distributions import Distribution
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac import functional as F
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.allowed_actions import build_dist
from rlkit_sac.modules.ensemble import Members
from rlkit_sac.objectives.batch import check_reward, find_sequence_ends
from rlkit_sac.objectives.checks import name_mismatched_entries
from rlkit_sac.objectives.sac.critics import CRITICS, CriticTerms, SACTransitions
from rlkit_sac.objectives.sac.factors import PolicySample
from rlkit_sac.objectives.sac.return_estimators import StepOutcome, ValueEstimate
from rlkit_sac.objectives.sac.sac_networks import SACNetworks


class SoftActorCriticLoss(SACNetworks):
    """Losses of critics, actor and temperatures, for a policy made of factors.

    A subclass defines the classes of the factors.
    """

    # ------------------------------------------------------------------ one update

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Return losses and scalars of a batch ``[*]``, and write the priority into the batch."""
        transitions, sample, next_sample, critics = self._evaluate_critics(tensordict)
        losses = self._losses(sample, next_sample, critics)
        scalars = self._scalars(sample, transitions.valid)
        if self.diagnostics:
            scalars |= self._diagnostics(sample, critics, transitions.valid)
        return self._output(losses, scalars, tensordict)

    @name_mismatched_entries
    def qvalue_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """Return ``loss_qvalue``, and ``td_error`` ``[*]``, which it also writes to the batch."""
        *_, critics = self._evaluate_critics(tensordict)
        loss = self.qvalue_coef * critics.losses.sum(0)
        return self._reduce_single_loss(loss, tensordict), {"td_error": critics.td_error}

    @name_mismatched_entries
    def actor_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """Return ``loss_actor``, and the temperatures, entropies and divergences.

        With ``policy_loss_steps="next"`` the scalars are about the next states.

        Raises:
            ConfigError: for a loss without an actor.
        """
        if self.actor_network is None:
            raise ConfigError(
                f"this {type(self).__name__} has no actor: its policy is that of the critics"
            )
        samples, scalars = self._policy_loss_samples(tensordict)
        loss = reduce(add, map(self._actor_loss, samples))
        return self._reduce_single_loss(loss, tensordict), scalars

    @name_mismatched_entries
    def alpha_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """Return ``loss_alpha``, and the temperatures, entropies and divergences."""
        samples, scalars = self._policy_loss_samples(tensordict)
        return self._reduce_single_loss(self._alpha_loss(samples), tensordict), scalars

    def _evaluate_critics(
        self, tensordict: TensorDictBase
    ) -> tuple[SACTransitions, PolicySample, PolicySample, CriticTerms]:
        r"""Sample at s' and s; compute :math:`L_{Q,i} = (Q_i(s, a_B) - y)^2` and the priority.

        :math:`Q_i(s, a_B)` is the critic's value of the action in the batch, even if a mask forbids
        this action.
        """
        transitions = self._read(tensordict, with_targets=True)
        next_sample = self._next_sample(transitions)
        sample = self._sample_policy(transitions.states)
        if self.entropy_centers:
            self._update_mean_log_probs(sample, next_sample, transitions.valid)
        target = self._td_target(transitions, next_sample)
        states, batch = transitions.states, transitions.batch
        members = self._members(self.qvalue_network, self.qvalue_network_params)
        q_taken = self.critics.taken_values(members, states, batch, sample)
        critics = self.critics.loss_terms(q_taken, target, transitions.valid)
        priority = self._pad_burn_in(critics.td_error) if self.burn_in else critics.td_error
        tensordict.set(self.tensor_keys.priority, priority)
        return transitions, sample, next_sample, critics

    def _td_target(self, transitions: SACTransitions, next_sample: PolicySample) -> ValueEstimate:
        r"""Return :math:`y = r + \gamma (1 - \text{terminated}) V(s')`, or the lambda-return.

        After a reward of n steps V(s') is discounted by :math:`\gamma^n`; the entropies of the
        steps between are left out.
        """
        batch = transitions.batch
        reward, steps = self._reward_and_steps(batch)
        terminated = batch.get(("next", self.tensor_keys.terminated)).bool()
        done = batch.get(("next", self.tensor_keys.done), None)
        cut = None if done is None else find_sequence_ends(done.bool(), transitions.valid)
        with torch.no_grad():
            next_value, bonus = self._next_value(transitions, next_sample, reward.shape[-1])
            outcome = StepOutcome(reward, terminated, cut, steps, next_value, bonus)
            return self.return_estimator.target(outcome, self.gamma)

    def _next_value(
        self, transitions: SACTransitions, next_sample: PolicySample, reward_dim: int
    ) -> tuple[ValueEstimate, Tensor]:
        r"""Return :math:`V(s') = E_k[\min_i \bar Q_i(s', a')_k] + b(s')`, and :math:`b(s')`.

        The expectation is over discrete actions. Without them it is the value of the one sample.
        The bonus is ``[*, 1]``.
        """
        targets = transitions.target_critics or self._target_critics()
        next_q = self.critics.expected_min(targets, next_sample, reward_dim)
        bonus = self._entropy_bonus(next_sample)
        return next_q._replace(values=F.soft_value(next_q.values, bonus)), bonus

    def _entropy_bonus(self, sample: PolicySample) -> Tensor:
        r"""Return :math:`b(s) = -\sum_f \alpha_f (\log\pi_f - \log\pi^0_f)`, ``[*, 1]``.

        It is 0 without ``use_entropy_reward``.
        """
        log_ratios = [factor_sample.log_ratio for factor_sample in sample.factors.values()]
        if not self.use_entropy_reward:
            return torch.zeros_like(log_ratios[0]).unsqueeze(-1)
        if self.entropy_centers:
            centers = self.entropy_centers.values()
            log_ratios = [center(x) for center, x in zip(centers, log_ratios, strict=True)]
        return F.entropy_bonus(log_ratios, map(self.alpha, sample.factors)).unsqueeze(-1)

    def _losses(
        self, sample: PolicySample, next_sample: PolicySample, critics: CriticTerms
    ) -> dict[str, Tensor]:
        """Return the losses ``[*]`` of all networks; ``policy_loss_steps`` selects the samples."""
        all_samples = {"first": (sample,), "next": (next_sample,), "all": (sample, next_sample)}
        samples = all_samples[self.policy_loss_steps]
        losses = {
            "loss_qvalue": self.qvalue_coef * critics.losses.sum(0),
            "loss_alpha": self._alpha_loss(samples),
        }
        if self.actor_network is not None:
            losses["loss_actor"] = reduce(add, map(self._actor_loss, samples))
        return losses

    def _actor_loss(self, sample: PolicySample) -> Tensor:
        r"""Return :math:`L_\pi = \alpha (\log\pi - \log\pi^0) - Q(s, a)`, with frozen critics.

        Q is the minimum (``policy_reduction``) over the critics; for hybrid actions it is
        :math:`\sum_k \operatorname{sg}(\pi_d(k|s, c))\,Q(s, c)_k`.
        """
        if self.continuous is None:
            return self._categorical_actor_loss(sample)
        name, q = self.continuous.name, self._reduced_q(sample)
        factor_sample, alpha = sample.factors[name], self.alpha(name)
        if sample.log_probs is not None:
            q = F.expected_value(q, sample.log_probs.detach().exp())
        q = F.weigh_rewards(q, self.critics.weights.value)
        if self.dqda_clipping is not None:
            assert factor_sample.action is not None
            q = F.clip_action_gradient(q, factor_sample.action, self.dqda_clipping)
        loss = F.actor_loss(q, factor_sample.log_ratio, alpha)  # alpha * log_ratio - q
        return loss if self.discrete is None else self._add_prior_gradient(loss, sample)

    def _categorical_actor_loss(self, sample: PolicySample) -> Tensor:
        r"""Return :math:`L_\pi = \sum_k \pi_k [\alpha (\log\pi_k - \log\pi^0_k) - Q_k]`."""
        ((name, factor_sample),) = sample.factors.items()
        assert factor_sample.log_probs is not None
        q = F.weigh_rewards(self._reduced_q(sample), self.critics.weights.value)
        log_probs, log_priors = factor_sample.log_probs, factor_sample.log_priors
        return F.categorical_actor_loss(q, log_probs, self.alpha(name), log_priors)

    def _add_prior_gradient(self, loss: Tensor, sample: PolicySample) -> Tensor:
        r"""Add the gradient with respect to c that comes from the discrete prior.

        The gradient of the value :math:`\alpha_d \log\sum_k \pi^0_d(k|s, c) \exp(Q_k / \alpha_d)`
        has two parts: one through Q, and :math:`\alpha_d \sum_k \pi_d \nabla_c
        \log\pi^0_d(k|s, c)`. The subtracted term has the value 0 and the second gradient.
        """
        assert self.discrete is not None
        log_priors = sample.factors[self.discrete.name].log_priors
        if log_priors is None or not log_priors.requires_grad:
            return loss
        assert sample.log_probs is not None
        expected_prior = (sample.log_probs.exp() * (log_priors - log_priors.detach())).sum(-1)
        return loss - self.alpha(self.discrete.name) * expected_prior

    def _alpha_loss(self, samples: Sequence[PolicySample]) -> Tensor:
        r"""Return :math:`\sum_f \log\alpha_f (-\log\pi_f + \log\pi^0_f - \bar{\mathcal H}_f)`.

        The loss is summed over the samples; fixed temperatures have no loss. With a prior
        :math:`\bar{\mathcal H}_f` is minus the target divergence.
        """
        loss = torch.zeros_like(next(iter(samples[0].factors.values())).expected_log_prob).detach()
        for name, factor in self.factors.items():
            if not factor.fixed:
                factor_samples = [sample.factors[name] for sample in samples]
                log_ratio = torch.stack([sample.log_ratio for sample in factor_samples]).sum(0)
                target = getattr(self, f"target_entropy{factor.suffix}")
                target_entropy = sum(factor.target_at(target, sample) for sample in factor_samples)
                multiplier = factor.temperature.multiplier(getattr(self, factor.parameter_name))
                loss = loss + F.temperature_loss(multiplier, -log_ratio, target_entropy)
        return loss

    # ------------------------------------------------------------------ samples of the policy

    def _sample_policy(self, states: TensorDictBase) -> PolicySample:
        """Sample the continuous action c, then compute the discrete policy given c."""
        dist = None if self.actor_network is None else self._actor_distribution(states)
        if self.continuous is None:
            return self._sample_discrete(states, dist)
        continuous, key = self.continuous, self.critics.action_key
        sample = continuous.sample(dist, states.batch_size)
        assert sample.action is not None
        inputs = states.copy().set(key, sample.action)
        if (prior := self.factor_priors[continuous.name]) is not None:
            weighs = continuous.weighs_dimensions
            score = prior.log_prob_of_each_dimension if weighs else prior.log_prob
            sample = replace(sample, expected_log_prior=score(inputs, sample.action, key))
        if self.discrete is None:
            return PolicySample({continuous.name: sample}, inputs)
        hybrid = self._sample_discrete(inputs)
        if continuous.weighs_dimensions:
            assert self.parameter_mask is not None
            assert hybrid.log_probs is not None
            sample = continuous.weigh_dimensions(sample, hybrid.log_probs, self.parameter_mask.mask)
        return replace(hybrid, factors=hybrid.factors | {continuous.name: sample})

    def _sample_discrete(
        self, inputs: TensorDictBase, dist: Distribution | None = None
    ) -> PolicySample:
        r"""Return :math:`\pi_d(k|s, c) \propto \pi^0_d(k|s, c) \exp(\min_i Q_i(s, c)_k/\alpha_d)`.

        With an actor, the policy is the actor's. Actions that a mask forbids have the probability
        0, and their values have no effect.
        """
        discrete, critics, is_hybrid = self.discrete, self.critics, self.continuous is not None
        assert discrete is not None
        # With c the critics are frozen. Without c the critics' loss uses the same values.
        params = self.qvalue_network_params.data if is_hybrid else self.qvalue_network_params
        q_values = critics.values(self._members(self.qvalue_network, params), inputs)
        allowed = critics.allowed_actions(inputs, q_values)
        reduced_q = critics.reduce(q_values if is_hybrid else q_values.detach(), allowed)
        num_actions, log_priors = reduced_q.shape[-2], None
        if (prior := self.factor_priors[discrete.name]) is not None:
            key = unravel_key(critics.index_key)
            log_priors = prior.log_prob_of_each_action(inputs, num_actions, key, allowed)
        if dist is not None:
            log_probs = discrete.actor_log_probs(dist, num_actions, allowed)
        else:
            log_probs = F.boltzmann_log_prob(
                F.weigh_rewards(reduced_q.detach(), critics.weights.value),
                self.alpha(discrete.name),
                None if log_priors is None else log_priors.detach(),
                allowed,
            )
        return PolicySample(
            {discrete.name: discrete.sample(log_probs, log_priors, allowed)},
            inputs,
            log_probs,
            allowed,
            q_values=None if is_hybrid else q_values,
            reduced_q=reduced_q,
        )

    def _reduced_q(self, sample: PolicySample) -> Tensor:
        """Return the minimum or mean over frozen critics at a sample, ``[*, (K,) M]``."""
        if sample.reduced_q is not None:
            return sample.reduced_q
        frozen = self._members(self.qvalue_network, self.qvalue_network_params.data)
        return self.critics.reduce(self.critics.values(frozen, sample.inputs))

    def _next_sample(self, transitions: SACTransitions) -> PolicySample:
        """Sample at the next states, with gradients if losses train on the sample."""
        with torch.set_grad_enabled(self.policy_loss_steps != "first" and torch.is_grad_enabled()):
            return self._sample_policy(transitions.next_states)

    def _policy_loss_samples(
        self, tensordict: TensorDictBase
    ) -> tuple[Sequence[PolicySample], dict[str, Tensor]]:
        """Return samples at the states of ``policy_loss_steps``, and scalars of the first one."""
        transitions, steps = self._read(tensordict), self.policy_loss_steps
        samples = [self._sample_policy(transitions.next_states)] if steps != "first" else []
        if steps != "next":
            samples.insert(0, self._sample_policy(transitions.states))
        return samples, self._scalars(samples[0], transitions.valid)

    def _actor_distribution(self, states: TensorDictBase) -> Distribution:
        """Return the distribution of the actor, in the dtype of the actor's parameters."""
        actor: Any = self.actor_network
        params = self.actor_network_params
        parameter, *_ = params.values(True, True)
        inputs = self._normalize_states(states).copy()
        if self.recurrent or self.encoder_network is not None:
            actor = self._head("actor_network")
            inputs = self._head_inputs("actor_network", inputs)
        # TorchRL calls losses in the deterministic mode; a sample needs the random one.
        with (
            set_exploration_type(ExplorationType.RANDOM),
            params.to_module(self.actor_network, preserve_module_state=False),
        ):
            autocast = torch.is_autocast_enabled(parameter.device.type)
            if not autocast and self.critics.action_mask_key is None:
                return actor.get_dist(inputs)
            out = actor.get_dist_params(inputs)
            if autocast:
                out = out.apply(lambda x: x.to(parameter.dtype) if x.is_floating_point() else x)
            return build_dist(actor, out)

    def _target_critics(self) -> Members:
        """Return the target critics, or a random subset of them."""
        members = self._members(self.qvalue_network, self.target_qvalue_network_params)
        if self.target_subset is None:
            return members
        return self.critics.draw_subset(members, self.target_subset, self.critic_order)

    def _scalars(self, sample: PolicySample, valid: Tensor | None) -> dict[str, Tensor]:
        """Return temperatures, entropies and divergences from priors, means over valid steps."""
        scalars: dict[str, Tensor] = {}
        for name, factor in self.factors.items():
            factor_sample, suffix = sample.factors[name], factor.suffix
            scalars[f"alpha{suffix}"] = self.alpha(name)
            entropy = -factor_sample.expected_log_prob.detach()
            scalars[f"entropy{suffix}"] = F.masked_mean(entropy, valid)
            if factor_sample.expected_log_prior is not None:
                divergence = factor_sample.log_ratio.detach()
                scalars[f"kl{suffix}"] = F.masked_mean(divergence, valid)
        return scalars

    # ------------------------------------------------------------------ the batch

    def _read(self, tensordict: TensorDictBase, *, with_targets: bool = False) -> SACTransitions:
        """Check a batch, and return the entries that the losses read."""
        if self._transition_keys is None:  # after set_keys
            self._check_network_keys()
            self._transition_keys = self._find_transition_keys()
        if self.critics.parameter_mask is not None:
            tensordict = self.critics.zero_unused_parameters(
                tensordict, self._transition_keys.states
            )
        memory = "a network with a memory" if self.recurrent else ""
        transitions = self._transition_keys.read(
            tensordict,
            self.in_keys,
            self._valid_steps(tensordict),
            sequential=self.return_estimator.sequential or memory,
        )
        reward = transitions.batch.get(("next", self.tensor_keys.reward))
        check_reward(reward, self.critics.weights.value, transitions.batch)
        needs_targets = with_targets and self.recurrent and CRITICS in self.target_networks
        targets = self._target_critics() if needs_targets else None
        checked = SACTransitions(**vars(transitions), target_critics=targets)
        if not (self.recurrent or self.burn_in or self.encoder_network is not None):
            return checked
        done = checked.batch.get(("next", self.tensor_keys.done), None)
        return self._encode(tensordict, checked, done, self._memory_passes(checked, with_targets))

    def alpha(self, factor: str = "") -> Tensor:
        """Return the temperature of a factor, a scalar within its bounds, without gradient."""
        parameter = getattr(self, self.factors[factor].parameter_name)
        return self.factors[factor].temperature.alpha(parameter)
