"""One update of soft actor-critic, in the order of its equations.

:meth:`SoftActorCriticLoss.forward` and what it calls here are the algorithm, for a policy of one or
two factors. Each equation is a function of :mod:`rlkit_sac.functional.sac`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any, cast

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
from rlkit_sac.modules.running_log_prob import RunningLogProb
from rlkit_sac.objectives.batch import check_reward
from rlkit_sac.objectives.consecutive import cut_steps
from rlkit_sac.objectives.contract import name_mismatched_entries
from rlkit_sac.objectives.sac.critics import CRITICS, CriticTerms, SACTransitions
from rlkit_sac.objectives.sac.diagnostics import critic_diagnostics
from rlkit_sac.objectives.sac.factors import FactorSample, PolicySample, factor_key
from rlkit_sac.objectives.sac.return_estimators import StepOutcome, Target
from rlkit_sac.objectives.sac.sac_networks import SACNetworks


class SoftActorCriticLoss(SACNetworks):
    """Critic, actor and temperature losses over a policy made of factors.

    A subclass defines the classes of its policy's factors and its critics.
    """

    # ------------------------------------------------------------------ one update

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Losses and scalars of a batch ``[*]``, into which only the priority is written."""
        transitions, sample, next_sample, critics = self._evaluate_critics(tensordict)
        losses = self._losses(sample, next_sample, critics)
        scalars = self._scalars(sample, transitions.valid)
        if self.diagnostics:
            scalars |= self._diagnostics(sample, critics, transitions.valid)
        return self._output(losses, scalars, tensordict)

    @name_mismatched_entries
    def qvalue_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """``loss_qvalue`` alone, with ``td_error`` ``[*]``, which is written into the batch."""
        *_, critics = self._evaluate_critics(tensordict)
        loss = self.qvalue_coef * critics.losses.sum(0)
        return self._reduce_alone(loss, tensordict), {"td_error": critics.td_error}

    @name_mismatched_entries
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
        samples, scalars = self._sample_alone(tensordict)
        loss = reduce(add, map(self._actor_loss, samples))
        return self._reduce_alone(loss, tensordict), scalars

    @name_mismatched_entries
    def alpha_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """``loss_alpha`` alone, with the temperatures, entropies and divergences."""
        samples, scalars = self._sample_alone(tensordict)
        return self._reduce_alone(self._alpha_loss(samples), tensordict), scalars

    def _evaluate_critics(
        self, tensordict: TensorDictBase
    ) -> tuple[SACTransitions, PolicySample, PolicySample, CriticTerms]:
        """Sample at s' and at s, and compare the critics at the stored action with their target."""
        transitions = self._read(tensordict, with_targets=True)
        next_sample = self._next_sample(transitions)
        sample = self._sample_policy(transitions.states)
        if self.entropy_centers:
            self._move_entropy_centers(sample, next_sample, transitions.valid)
        target = self._target(transitions, next_sample)
        states, batch = transitions.states, transitions.batch
        members = self._members(self.qvalue_network, self.qvalue_network_params)
        q_taken = self.critics.values_of_taken(members, states, batch, sample)
        critics = self.critics.loss_terms(q_taken, target, transitions.valid)
        priority = self._with_burn_in(critics.td_error) if self.burn_in else critics.td_error
        tensordict.set(self.tensor_keys.priority, priority)
        return transitions, sample, next_sample, critics

    def _target(self, transitions: SACTransitions, next_sample: PolicySample) -> Target:
        """The target of the critics, from the rewards and the soft value of the next states."""
        keys, batch = self.tensor_keys, transitions.batch
        reward, steps = batch.get(("next", keys.reward)), batch.get(keys.steps_to_next_obs, None)
        if steps is not None:
            if "gamma" in self._buffers:
                raise ConfigError("set_scalar cannot change gamma in rewards of several steps")
            steps = steps.reshape(*batch.batch_size, 1).to(reward.dtype)
        if self.reward_normalizer is not None:
            reward = self.reward_normalizer(reward, steps)
        reward = self.reward_scale * reward
        terminated = batch.get(("next", keys.terminated)).bool()
        done = batch.get(("next", keys.done), None)
        cut = None if done is None else cut_steps(done.bool(), transitions.valid)
        with torch.no_grad():
            next_value, bonus = self._next_value(transitions, next_sample, reward.shape[-1])
            outcome = StepOutcome(reward, terminated, cut, steps, next_value, bonus)
            return self.return_estimator.target(outcome, self.gamma)

    def _next_value(
        self, transitions: SACTransitions, next_sample: PolicySample, reward_dim: int
    ) -> tuple[Target, Tensor]:
        """The soft value of the next states, and the entropy bonus in it, ``[*, 1]``."""
        targets = transitions.target_critics or self._target_critics()
        next_q = self.critics.target(targets, next_sample, reward_dim)
        bonus = self._entropy_bonus(next_sample)
        return next_q._replace(values=F.soft_value(next_q.values, bonus)), bonus

    def _losses(
        self, sample: PolicySample, next_sample: PolicySample, critics: CriticTerms
    ) -> dict[str, Tensor]:
        """The losses of all networks, ``[*]`` each."""
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
        """Loss ``[*]`` of the actor, without gradients for the critics."""
        continuous, weights = self.continuous, self.critics.weights.value
        value = self._policy_value(sample)
        if continuous is None:  # an exact expectation over the discrete actions
            (factor_sample,) = sample.factors.values()
            assert factor_sample.log_probs is not None
            (name,) = self.factors
            return F.categorical_actor_loss(
                F.weigh_rewards(value, weights),
                factor_sample.log_probs,
                self.alpha(name),
                factor_sample.log_priors,
            )
        factor_sample, alpha = sample.factors[continuous.name], self.alpha(continuous.name)
        if sample.log_probs is not None:
            value = F.expected_value(value, sample.log_probs.detach().exp())
        value = F.weigh_rewards(value, weights)
        if self.dqda_clipping is not None:
            assert factor_sample.action is not None
            value = F.clip_action_gradient(value, factor_sample.action, self.dqda_clipping)
        loss = F.actor_loss(value, factor_sample.log_prob_minus_prior, alpha)
        if self.discrete is None:
            return loss
        log_priors = sample.factors[self.discrete.name].log_priors
        if log_priors is None or not log_priors.requires_grad:
            return loss
        # The soft maximum of a discrete prior that depends on c has this share in its gradient.
        assert sample.log_probs is not None
        favored = (sample.log_probs.exp() * (log_priors - log_priors.detach())).sum(-1)
        return loss - self.alpha(self.discrete.name) * favored

    def _alpha_loss(self, samples: Sequence[PolicySample]) -> Tensor:
        """Loss ``[*]`` of the temperatures, summed over the samples; 0 for fixed ones."""
        loss = torch.zeros_like(next(iter(samples[0].factors.values())).log_prob).detach()
        for name, factor in self.factors.items():
            if not factor.fixed:
                target = getattr(self, f"target_entropy{factor.suffix}")
                factor_samples = [sample.factors[name] for sample in samples]
                parameter = getattr(self, factor.parameter_name)
                loss = loss + factor.alpha_loss(parameter, target, factor_samples)
        return loss

    def _entropy_bonus(self, sample: PolicySample) -> Tensor:
        """The entropy bonus of a state, ``[*, 1]``; 0 without ``use_entropy_reward``."""
        log_probs = [factor.log_prob_minus_prior for factor in sample.factors.values()]
        if not self.use_entropy_reward:
            return torch.zeros_like(log_probs[0]).unsqueeze(-1)
        if self.entropy_centers:
            centers = map(self._entropy_center, sample.factors)
            log_probs = [center(x) for center, x in zip(centers, log_probs, strict=True)]
        return F.entropy_bonus(log_probs, map(self.alpha, sample.factors)).unsqueeze(-1)

    # ------------------------------------------------------------------ samples of the policy

    def _sample_policy(self, states: TensorDictBase) -> PolicySample:
        """Sample the continuous action, then the discrete one given the critics' values of it."""
        continuous, discrete, critics = self.continuous, self.discrete, self.critics
        samples: dict[str, FactorSample] = {}
        has_actor = self.actor_network is not None
        inputs, dist = states, self._actor_distribution(states) if has_actor else None
        if continuous is not None:
            assert dist is not None
            sample = continuous.sample(dist, states.batch_size)
            assert sample.action is not None
            key = critics.action_key
            inputs = states.copy().set(key, sample.action)
            if self.priors and (prior := self.priors.find(continuous.name)) is not None:
                score = prior.log_prob_of_each_dimension if continuous.masked else prior.log_prob
                sample = replace(sample, log_prior=score(inputs, sample.action, key))
            samples[continuous.name] = sample
        if discrete is None:
            return PolicySample(samples, inputs)
        params = self.qvalue_network_params
        params = params if continuous is None else params.data
        q_values = critics.values(self._members(self.qvalue_network, params), inputs)
        masked = critics.mask_key is not None
        allowed = critics.allowed_actions(inputs, q_values) if masked else None
        value = critics.reduced(q_values if continuous is not None else q_values.detach(), allowed)
        num_actions, log_priors = value.shape[-2], None
        if self.priors and (prior := self.priors.find(discrete.name)) is not None:
            key = unravel_key(critics.index_key)
            log_priors = prior.log_prob_of_each_action(inputs, num_actions, key, allowed)
        if continuous is None and dist is not None:
            log_probs = discrete.actor_log_probs(dist, num_actions, allowed)
        else:  # the soft-optimal policy of the critics
            log_probs = F.boltzmann_log_prob(
                F.weigh_rewards(value.detach(), critics.weights.value),
                self.alpha(discrete.name),
                None if log_priors is None else log_priors.detach(),
                allowed,
            )
        samples = {discrete.name: discrete.sample(log_probs, log_priors, allowed)} | samples
        if continuous is None:
            return PolicySample(samples, inputs, log_probs, allowed, q_values, value)
        if continuous.masked:
            assert self.parameter_mask is not None
            sample, mask = samples[continuous.name], self.parameter_mask.mask
            samples[continuous.name] = continuous.weigh_dimensions(sample, log_probs, mask)
        return PolicySample(samples, inputs, log_probs, allowed, value=value)

    def _next_sample(self, transitions: SACTransitions) -> PolicySample:
        """A sample at the next states, with gradients where losses train on it."""
        with torch.set_grad_enabled(self.policy_loss_steps != "first" and torch.is_grad_enabled()):
            return self._sample_policy(transitions.next_states)

    def _sample_alone(
        self, tensordict: TensorDictBase
    ) -> tuple[Sequence[PolicySample], dict[str, Tensor]]:
        """Samples at the states of ``policy_loss_steps``, and the scalars of the first one."""
        transitions, steps = self._read(tensordict), self.policy_loss_steps
        samples = [self._sample_policy(transitions.next_states)] if steps != "first" else []
        if steps != "next":
            samples.insert(0, self._sample_policy(transitions.states))
        return samples, self._scalars(samples[0], transitions.valid)

    def _actor_distribution(self, states: TensorDictBase) -> Distribution:
        """The distribution of the actor, in the dtype of its parameters."""
        actor: Any = self.actor_network
        params = self.actor_network_params
        like, *_ = params.values(True, True)
        inputs = self._normalized(states).copy()
        if self.recurrent or self.encoder_network is not None:
            actor = self._head("actor_network")
            inputs = self._head_inputs("actor_network", inputs)
        # TorchRL calls losses in the deterministic mode; a sample needs the random one.
        with (
            set_exploration_type(ExplorationType.RANDOM),
            params.to_module(self.actor_network, preserve_module_state=False),
        ):
            if not torch.is_autocast_enabled(like.device.type):
                if self.discrete is None or self.critics.mask_key is None:
                    return actor.get_dist(inputs)
                return build_dist(actor, actor.get_dist_params(inputs))
            dist_params = actor.get_dist_params(inputs)
            return build_dist(
                actor, dist_params.apply(lambda x: x.to(like.dtype) if x.is_floating_point() else x)
            )

    def _policy_value(self, sample: PolicySample) -> Tensor:
        """The reduced value ``[*, (K,) M]`` of a sample, without gradients for the critics."""
        if sample.value is not None:
            return sample.value
        frozen = self._members(self.qvalue_network, self.qvalue_network_params.data)
        return self.critics.reduced(self.critics.values(frozen, sample.inputs))

    def _target_critics(self) -> Members:
        """The target critics, or a random subset of them."""
        members = self._members(self.qvalue_network, self.target_qvalue_network_params)
        if self.target_subset is None:
            return members
        return self.critics.draw_subset(members, self.target_subset, self.critic_order)

    def _scalars(self, sample: PolicySample, valid: Tensor | None) -> dict[str, Tensor]:
        """Temperatures, entropies and divergences from priors, means over the valid steps."""
        scalars: dict[str, Tensor] = {}
        for name, factor in self.factors.items():
            factor_sample, suffix = sample.factors[name], factor.suffix
            scalars[f"alpha{suffix}"] = self.alpha(name)
            entropy = -factor_sample.log_prob.detach()
            scalars[f"entropy{suffix}"] = F.masked_mean(entropy, valid)
            if factor_sample.log_prior is not None:
                divergence = factor_sample.log_prob_minus_prior.detach()
                scalars[f"kl{suffix}"] = F.masked_mean(divergence, valid)
        return scalars

    def _diagnostics(
        self, sample: PolicySample, critics: CriticTerms, valid: Tensor | None
    ) -> dict[str, Tensor]:
        """Statistics of the critics."""
        return critic_diagnostics(self.critics.head, critics, valid)

    def _move_entropy_centers(
        self, sample: PolicySample, next_sample: PolicySample, valid: Tensor | None
    ) -> None:
        """Move the running means of log-probabilities towards those of samples at s and s'."""
        for name in self.factors:
            pair = sample.factors[name], next_sample.factors[name]
            mean = 0.5 * (pair[0].log_prob_minus_prior + pair[1].log_prob_minus_prior)
            self._entropy_center(name).move(mean.detach(), valid)

    def _entropy_center(self, factor: str) -> RunningLogProb:
        return cast(RunningLogProb, self.entropy_centers[factor_key("log_prob", factor)])

    # ------------------------------------------------------------------ the batch

    def _read(self, tensordict: TensorDictBase, *, with_targets: bool = False) -> SACTransitions:
        """Check a batch, and return what the losses read of it."""
        if self._transition_keys is None:  # after set_keys
            self._check_network_keys()
            self._transition_keys = self._find_transition_keys()
        if self.critics.mask is not None:
            tensordict = self.critics.without_unused_parameters(
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
        remembering = with_targets and self.recurrent and CRITICS in self.target_networks
        targets = self._target_critics() if remembering else None
        read = SACTransitions(**vars(transitions), target_critics=targets)
        if not (self.recurrent or self.burn_in or self.encoder_network is not None):
            return read
        done = read.batch.get(("next", self.tensor_keys.done), None)
        return self._encode(tensordict, read, done, self._memory_passes(read, with_targets))

    def alpha(self, factor: str = "") -> Tensor:
        """Return the temperature of a factor, a scalar within its bounds, without gradient."""
        parameter = getattr(self, self.factors[factor].parameter_name)
        return self.factors[factor].temperature.alpha(parameter)
