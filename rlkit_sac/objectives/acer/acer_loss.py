r"""One update of actor-critic with experience replay, in the order of its equations.

:meth:`ACERLoss.forward` and the methods that it calls here are algorithms 2 and 3 of the paper. The
differences between categorical and Gaussian policies are in
:mod:`~rlkit_sac.objectives.acer.terms`, ratios and their truncation in
:mod:`~rlkit_sac.functional.importance`, targets in :mod:`~rlkit_sac.functional.retrace`, and the
projection in :mod:`~rlkit_sac.functional.trust_region`. Losses ``[*, T]`` are one number for each
step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, get_args

import torch
from tensordict import TensorDictBase
from tensordict.nn import ProbabilisticTensorDictSequential, TensorDictModuleBase, dispatch
from torch import Tensor
from torchrl.objectives import ValueEstimators

from rlkit_sac import functional as F
from rlkit_sac.config.acer import ACERLossConfig
from rlkit_sac.config.options import NonNegativeFloat, check_values
from rlkit_sac.errors import ConfigError
from rlkit_sac.functional.categorical import CategoricalSpace
from rlkit_sac.functional.gaussian import GaussianSpace
from rlkit_sac.objectives.acer.segments import (
    DUELING,
    ACEROptions,
    SegmentLoss,
    policy_log_probs,
    upcast,
)
from rlkit_sac.objectives.acer.terms import ACERTerms
from rlkit_sac.objectives.arguments import add_options, read_options

_SPACES: dict[str, Any] = {"discrete": CategoricalSpace, "continuous": GaussianSpace}
_SCALARS = ("kl", "entropy", "value")
_DIAGNOSTICS = ("ratio", "truncated", "projected", "q_mean", "target_mean", "explained_variance")


class Evaluation(NamedTuple):
    r"""The inputs of all losses, at the steps ``[*, T]`` of segments.

    Attributes:
        terms: the policy and its critic at each step.
        ratio: the importance ratio :math:`\rho`, ``[*, T]``.
        advantage: the advantage A of the policy loss, ``[*, T]``, without gradient.
        q_ret: the Retrace targets, ``[*, T]``.
        threshold: the threshold c at which ratios are truncated. ``None``, as always on-policy,
            means no bias correction: ratios are then only clamped against overflow.
        valid: the valid steps, bool ``[*, T]``; ``None`` if every step is valid.
    """

    terms: ACERTerms
    ratio: Tensor
    advantage: Tensor
    q_ret: Tensor
    threshold: float | None
    valid: Tensor | None


#: A loss, multiplied by its coefficient, and the scalars that belong to it.
Part: TypeAlias = tuple[Tensor, dict[str, Tensor]]


@add_options(ACERLossConfig, ACEROptions)
class ACERLoss(SegmentLoss):
    r"""Losses of actor-critic with experience replay, over segments of trajectories.

    The importance ratio is :math:`\rho_t = \pi(a_t|s_t) / \mu(a_t|s_t)`. The segment stores the
    distribution parameters of the behavior policy :math:`\mu`. The Retrace targets
    :math:`Q^{ret}` are in :func:`~rlkit_sac.functional.retrace_return`. The advantage is
    :math:`A_t = Q^{ret}_t - V(s_t)`; with ``use_q_opc``, :math:`Q^{opc}_t` of
    :func:`~rlkit_sac.functional.opc_return` replaces :math:`Q^{ret}_t` in it. The losses are

    .. math::
        L_\pi &= -\min(c, \rho_t) A_t \log\pi(a_t|s_t)
            - E_{a\sim\pi}\left[[1 - c/\rho(a)]_+ (Q(s_t, a) - V(s_t)) \log\pi(a|s_t)\right] \\
        L_Q &= \tfrac12 (Q^{ret}_t - Q(s_t, a_t))^2 \\
        L_H &= -\beta\, H(\pi(\cdot|s_t))

    Gradients flow only through :math:`\log\pi`, :math:`Q(s_t, a_t)` and H, and with continuous
    actions through V. With discrete actions the expectation is exact, and :math:`V = \sum_a \pi(a)
    Q(a)` has no gradient. With continuous actions one sample estimates the expectation, and
    :math:`L_Q` has a second term for V, :math:`\tfrac12(\text{sg}[\min(1,\rho_t)(Q^{ret}_t -
    Q(s_t,a_t)) + V(s_t)] - V(s_t))^2`, where sg stops gradients. Source: Wang et al. 2016
    (arXiv:1611.01224), algorithms 1 to 3.

    **Trust region.** The gradient g of :math:`L_\pi` with respect to the distribution's parameters
    :math:`\phi` is projected at each step by :func:`~rlkit_sac.functional.project_gradient`. There
    k is the gradient of :math:`-D(\bar\pi \Vert \pi)`, and :math:`\bar\pi` the average policy. The
    choice of :math:`\phi` changes the result where the constraint is active: to compare with
    another implementation, use its ``trust_region_space``. Both gradients are computed in closed
    form, without automatic differentiation. ``loss_actor`` has the value of the unprojected loss
    and the gradient of the projected loss.

    The average policy is ``target_actor_network_params``: update it after **every** optimizer step
    with TorchRL's ``SoftUpdate(loss, eps=0.99)``.

    The loss reads segments ``[*, T]``, time in the last dimension: ``observation`` or other inputs
    of the networks, also under ``next``; ``action``, an index ``[*, T]`` or a vector
    ``[*, T, D]``; ``("next", "reward")``, ``("next", "done")`` and ``("next", "terminated")``
    ``[*, T, 1]``; ``("behavior", "logits")`` ``[*, T, A]``, or ``("behavior", "loc")`` and
    ``("behavior", "scale")`` ``[*, T, D]``, as :meth:`policy` writes them; ``("collector",
    "mask")`` ``[*, T]`` and ``priority_weight`` ``[*, T]`` if present. A row may hold several
    episodes and padding. Where the episode is done and before invalid steps, the recursion restarts
    from the value of the next state, or from 0 where the episode terminated. If a next state is not
    the state of the next step, an error or a warning says so in the first 100 batches on the CPU.

    It returns ``loss_actor``, ``loss_critic`` and ``loss_entropy``, multiplied by their
    coefficients, float32 under autocast; the total loss is the sum. The scalars are ``kl``
    :math:`D(\bar\pi \Vert \pi)` and ``entropy`` (nats) and ``value`` (the mean of V), and with
    ``diagnostics=True`` ``ratio`` (the mean of :math:`\rho`), ``truncated`` (the share of steps
    with :math:`\rho > c`), ``projected`` (the share of steps whose gradient the trust region
    changed), ``q_mean``, ``target_mean`` and ``explained_variance`` (of the targets).

    :meth:`actor_loss`, :meth:`critic_loss` and :meth:`entropy_loss` compute single losses.

    **Masks.** After ``set_keys(action_mask="action_mask")`` the loss reads this mask of allowed
    actions, bool ``[*, T, A]``, at the state and under ``next``. Policies and expectations are then
    over the allowed actions. A stored action that the mask forbids has the critic's value and is
    trained as any other.

    **Memory.** Networks with a GRU or an LSTM (``memory`` of the builders) read ``is_init`` and
    ``prev_action``, which a batch does not need under ``next``. They start a row with the state
    that the batch holds under :attr:`state_keys`, without gradient, or at zero. The average policy
    runs its own memory from the same state.

    **On-policy segments.** Steps that the present policy has just taken have :math:`\rho = 1` and
    no truncation, and need no behavior parameters. The loss does not infer this: call
    ``loss(segment, on_policy=True)``. If the caller passes only the segment, as an
    :class:`~rlkit_sac.updates.Update` does, set the attribute ``on_policy``; compiled graphs follow
    it.

    Args:
        actor_network: a TorchRL ``ProbabilisticActor`` with a ``Categorical`` over indices
            (discrete) or an unsquashed diagonal Gaussian such as ``IndependentNormal``
            (continuous).
        critic_network: a critic. For discrete actions it reads no action and writes
            ``action_value`` ``[*, A]``. For continuous actions it is a
            :class:`~rlkit_sac.modules.StochasticDuelingNetwork`, whose sampler is called for
            :math:`Q(s_t, a_t)`, for the action a of the correction, and for the Q of that action.
            The critic may read entries that the actor writes before its distribution, such as the
            output of a shared trunk. Then the trunk is computed once, and both losses train it.

    Further keyword arguments are the fields of :class:`ACEROptions` and the fields of
    :class:`~rlkit_sac.config.ACERLossConfig` except ``schedules``.

    Raises:
        ConfigError: for an impossible option or network.
        BatchError: in the call, for a missing entry or a wrong shape.

    >>> from tensordict import TensorDict
    >>> from rlkit_sac.modules import action_value_critic, categorical_actor
    >>> loss = ACERLoss(categorical_actor(3, 2), action_value_critic(3, 2))
    >>> segment = loss.policy()(TensorDict(observation=torch.randn(4, 5, 3), batch_size=[4, 5]))
    >>> segment["next"] = TensorDict(
    ...     observation=segment["observation"].roll(-1, 1),
    ...     reward=torch.randn(4, 5, 1),
    ...     done=torch.zeros(4, 5, 1, dtype=torch.bool),
    ...     terminated=torch.zeros(4, 5, 1, dtype=torch.bool),
    ...     batch_size=[4, 5],
    ... )
    >>> sorted(loss(segment).keys())
    ['entropy', 'kl', 'loss_actor', 'loss_critic', 'loss_entropy', 'value']
    """

    adjustable = SegmentLoss.adjustable | {"beta": NonNegativeFloat}

    def __init__(
        self,
        actor_network: ProbabilisticTensorDictSequential | None = None,
        critic_network: TensorDictModuleBase | None = None,
        **options: Any,
    ) -> None:
        loss_options, section = read_options(type(self), options)
        if loss_options.reduction == "mean" and not section.normalize_loss_by_steps:
            loss_options = replace(loss_options, reduction="sum")
        super().__init__(actor_network, critic_network, loss_options)
        spaces = _SPACES[self.kind]
        space = {"trust_region_space": section.trust_region_space}
        check_values({"trust_region_space": spaces | None}, space)
        exact = get_args(spaces)[0]
        self.trust_region_space: Any = section.trust_region_space or exact
        # Without a projection all spaces give the same gradient; the default is the most exact.
        self._space: Any = self.trust_region_space if section.use_trust_region else exact
        self.policy_coef, self.critic_coef = section.policy_coef, section.critic_coef
        self.beta, self.reward_scale = section.beta, section.reward_scale
        self.truncation_threshold = section.truncation_threshold
        self.use_trust_region = section.use_trust_region
        self.trust_region_delta = section.trust_region_delta
        self.use_q_opc = section.use_q_opc
        self.on_policy = loss_options.on_policy
        self.make_value_estimator(gamma=section.gamma)

    # ------------------------------------------------------------------ the losses

    @dispatch
    def forward(self, tensordict: TensorDictBase, on_policy: bool | None = None) -> TensorDictBase:
        """Return all losses and scalars of segments ``[*, T]``, from one pass of the networks.

        Args:
            tensordict: the segments; not changed.
            on_policy: whether the present policy has taken their actions. Default: the attribute.
        """
        evaluation = self._evaluate_networks(tensordict, on_policy)
        parts = {
            "loss_actor": self._actor_part(evaluation),
            "loss_critic": self._critic_part(evaluation),
            "loss_entropy": self._entropy_part(evaluation),
        }
        scalars = {key: x for _, metrics in parts.values() for key, x in metrics.items()}
        return self._output(
            {name: loss for name, (loss, _) in parts.items()},
            {key: scalars[key] for key in (*_SCALARS, *_DIAGNOSTICS) if key in scalars},
            tensordict,
        )

    def actor_loss(self, tensordict: TensorDictBase, on_policy: bool | None = None) -> Part:
        """Return ``loss_actor``, and the scalar ``kl``.

        With ``diagnostics=True`` also ``ratio``, ``truncated`` and ``projected``. See
        :meth:`forward` for the arguments.
        """
        return self._compute_part(self._actor_part, tensordict, on_policy)

    def critic_loss(self, tensordict: TensorDictBase, on_policy: bool | None = None) -> Part:
        """Return ``loss_critic``, and the scalar ``value``.

        With ``diagnostics=True`` also ``q_mean``, ``target_mean`` and ``explained_variance``. See
        :meth:`forward` for the arguments.
        """
        return self._compute_part(self._critic_part, tensordict, on_policy)

    def entropy_loss(self, tensordict: TensorDictBase, on_policy: bool | None = None) -> Part:
        """Return ``loss_entropy``, and the scalar ``entropy``; see :meth:`forward`."""
        return self._compute_part(self._entropy_part, tensordict, on_policy)

    def _compute_part(
        self, part: Callable[[Evaluation], Part], batch: TensorDictBase, on_policy: bool | None
    ) -> Part:
        loss, scalars = part(self._evaluate_networks(batch, on_policy))
        return self._reduce_single_loss(loss, batch), scalars

    def _evaluate_networks(self, tensordict: TensorDictBase, on_policy: bool | None) -> Evaluation:
        r"""Run the networks once, sample actions, and compute targets and advantage.

        :math:`Q^{ret}`, with the traces :math:`\min(1, \rho^{1/D})`, is the target of the critic
        and of the advantage. With ``use_q_opc`` the advantage takes :math:`Q^{opc}` instead.
        """
        segments = self._read(tensordict, self.on_policy if on_policy is None else on_policy)
        batch, cut, valid = segments.batch, segments.cut, segments.valid
        states, keys = self._normalize_states(segments.states), self.tensor_keys
        average = self._average_policy(states)
        with (
            self.actor_network_params.to_module(self.actor_network, preserve_module_state=False),
            self.critic_network_params.to_module(self.critic_network, preserve_module_state=False),
        ):
            policy, states = self._run_actor(states)
            is_discrete = self.kind == "discrete"
            make_terms = self._categorical_terms if is_discrete else self._gaussian_terms
            terms: ACERTerms = make_terms(segments, states, policy, average)
            next_value = self._next_value(self._normalize_states(segments.next_states))
        terminated = batch.get(("next", keys.terminated)).bool().squeeze(-1)
        next_value = next_value.masked_fill(terminated, 0.0)
        reward = self._reward_and_steps(batch)[0].detach().squeeze(-1)
        value, q, gamma = terms.value.detach(), terms.q.detach(), self.gamma
        trace = F.retrace_coefficient(terms.log_ratio, terms.action_dim)
        q_ret = advantage_target = F.retrace_return(
            reward, value, q, trace, next_value, cut, gamma=gamma, valid=valid
        )
        if self.use_q_opc:
            advantage_target = F.opc_return(
                reward, value, q, next_value, cut, gamma=gamma, valid=valid
            )
        threshold = self.truncation_threshold if segments.behavior else None
        ratio = F.importance_ratio(terms.log_ratio)
        return Evaluation(terms, ratio, advantage_target - value, q_ret, threshold, valid)

    def _actor_part(self, evaluation: Evaluation) -> Part:
        r"""Return :math:`L_\pi = -\min(c, \rho) A \log\pi(a|s) - E_\pi[\dots]`, eq. 9 to 12.

        The gradient g with respect to :math:`\phi` is projected onto the trust region.
        """
        terms, ratio, advantage, _, threshold, valid = evaluation
        weight = F.truncate_ratio(ratio, threshold) * advantage
        loss, gradient = terms.policy_gradient(weight, threshold)
        projected = gradient
        if self.use_trust_region:
            projected = F.project_gradient(gradient, terms.kl_gradient(), self.trust_region_delta)
        loss = F.replace_gradient(loss, terms.parameters, projected)
        scalars = {"kl": F.masked_mean(terms.kl, valid)}
        if self.diagnostics:
            limit = math.inf if threshold is None else threshold
            changed = (projected != gradient).any(-1)
            # The sum of the ratios must not overflow.
            finite = ratio.clamp_max(torch.finfo(ratio.dtype).max / max(1, ratio.numel()))
            scalars["ratio"] = F.masked_mean(finite, valid)
            scalars["truncated"] = F.masked_mean((ratio > limit).to(ratio.dtype), valid)
            scalars["projected"] = F.masked_mean(changed.to(ratio.dtype), valid)
        return self.policy_coef * loss, scalars

    def _critic_part(self, evaluation: Evaluation) -> Part:
        r"""Return :math:`L_Q = \tfrac12 (Q^{ret} - Q(s, a))^2`.

        With continuous actions the loss of V is added.
        """
        terms, ratio, _, q_ret, _, valid = evaluation
        error = q_ret - terms.q
        loss = 0.5 * error.square()
        if self.kind == "continuous":  # algorithm 3: V has a target of its own
            target = terms.value.detach() + ratio.clamp_max(1.0) * error.detach()
            loss = loss + 0.5 * (target - terms.value).square()
        scalars = {"value": F.masked_mean(terms.value.detach(), valid)}
        if self.diagnostics:
            q = terms.q.detach()
            scalars["q_mean"] = F.masked_mean(q, valid)
            scalars["target_mean"] = F.masked_mean(q_ret, valid)
            scalars["explained_variance"] = F.explained_variance(
                q.unsqueeze(-1), q_ret.unsqueeze(-1), valid
            )
        return self.critic_coef * loss, scalars

    def _entropy_part(self, evaluation: Evaluation) -> Part:
        r"""Return :math:`L_H = -\beta H(\pi(\cdot|s))`, times ``policy_coef``."""
        entropy = evaluation.terms.entropy
        scalars = {"entropy": F.masked_mean(entropy.detach(), evaluation.valid)}
        return -self.policy_coef * self.beta * entropy, scalars

    @torch.no_grad()
    def _next_value(self, states: TensorDictBase) -> Tensor:
        """Return V ``[*, T]`` of the states after each step."""
        if self.kind == "discrete":
            policy, actor_out = self._run_actor(states)
            allowed, values = self._action_mask(states, policy), self._action_values(actor_out)
            if allowed is not None:
                values = F.zero_forbidden(values, allowed)
            return (policy_log_probs(policy, allowed).exp() * values).sum(-1)
        if not self._written_keys().isdisjoint(self._critic_state_keys()):
            _, states = self._run_actor(states)  # the critic reads an output of the actor
        inputs = self._head_inputs(DUELING[0], states)
        return upcast(self._dueling.state_value(inputs)).squeeze(-1)

    # ------------------------------------------------------------------ options

    def make_value_estimator(
        self, value_type: ValueEstimators | str | None = None, **hyperparams: Any
    ) -> ACERLoss:
        """Set the discount of the Retrace targets, the only targets of this loss.

        Args:
            value_type: ``None``.
            **hyperparams: ``gamma``; by default it does not change.

        Raises:
            NotImplementedError: for another estimator.
            ConfigError: for an unknown hyperparameter, or a discount outside of [0, 1].
        """
        if value_type is not None:
            raise NotImplementedError(
                f"ACERLoss has no value estimator {value_type!r}: its targets are those of Retrace"
            )
        unknown = sorted(hyperparams.keys() - {"gamma"})
        if unknown:
            raise ConfigError(f"unknown hyperparameters {', '.join(unknown)}; it takes gamma")
        self._set_gamma(hyperparams.get("gamma"))
        return self

    def _default_out_keys(self) -> list[str]:
        losses = ("loss_actor", "loss_critic", "loss_entropy")
        return [*losses, *_SCALARS, *(_DIAGNOSTICS if self.diagnostics else ())]
