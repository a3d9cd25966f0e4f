"""The terms of ACER's losses at each step, for categorical and Gaussian policies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from rlkit_sac import functional as F
from rlkit_sac.functional.categorical import CategoricalSpace
from rlkit_sac.functional.discrete import LOWEST_LOG_PROB
from rlkit_sac.functional.gaussian import GaussianSpace


def full_precision(x: Tensor) -> Tensor:
    """Numbers of 16 bits, as autocast makes them, in float32; others as they are.

    >>> full_precision(torch.ones(1, dtype=torch.bfloat16)).dtype
    torch.float32
    """
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


class Gaussian(NamedTuple):
    """A diagonal Gaussian, ``[*, D]`` each."""

    loc: Tensor
    scale: Tensor


class ACERTerms(ABC):
    r"""The terms of ACER's losses at the steps ``[*]`` of segments.

    Attributes:
        value: V, ``[*]``.
        q: :math:`Q(s, a)` of the stored action, ``[*]``.
        parameters: :math:`\phi`, ``[*, P]``.
        entropy: nats, ``[*]``.
        kl: :math:`D(\bar\pi \Vert \pi)`, nats, ``[*]``, without gradient.
        log_ratio: :math:`\log\rho` of the stored action, ``[*]``, without gradient; 0 on-policy.
        action_dim: D of the traces.
    """

    value: Tensor
    q: Tensor
    parameters: Tensor
    entropy: Tensor
    kl: Tensor
    log_ratio: Tensor
    action_dim: int = 1

    def ratio(self) -> Tensor:
        r""":math:`\rho`, ``[*]``."""
        return F.importance_ratio(self.log_ratio)

    def trace(self) -> Tensor:
        r""":math:`\bar\rho`, ``[*]``."""
        return F.retrace_coefficient(self.log_ratio, self.action_dim)

    def policy_loss(
        self, advantage: Tensor, threshold: float | None, delta: float | None
    ) -> tuple[Tensor, Tensor]:
        """The policy loss without entropy, its gradient projected onto the trust region.

        Args:
            advantage: ``[*]``, without gradient.
            threshold: c; ``None`` for no truncation, as on-policy.
            delta: bound of the trust region; ``None`` for no projection.

        Returns:
            ``[*]`` each: the loss, with the value of the unprojected policy loss and the gradient
            of the projected one, and bool, where the projection changed the gradient.
        """
        weight = F.truncate_ratio(self.ratio(), threshold) * advantage
        loss, gradient = self._policy_gradient(weight, threshold)
        projected = gradient
        if delta is not None:
            projected = F.project_gradient(gradient, self._kl_gradient(), delta)
        changed = (projected != gradient).any(-1)
        return F.with_gradient(loss, self.parameters, projected), changed

    @abstractmethod
    def critic_loss(self, q_ret: Tensor) -> Tensor:
        """Loss ``[*]`` of the critic.

        Args:
            q_ret: the Retrace target, ``[*]``.
        """

    @abstractmethod
    def _policy_gradient(self, weight: Tensor, threshold: float | None) -> tuple[Tensor, Tensor]:
        """Value ``[*]`` and gradient ``[*, P]`` of the policy loss.

        Args:
            weight: of minus the log-probability of the stored action, ``[*]``.
            threshold: c of the bias correction; ``None`` for none.
        """

    @abstractmethod
    def _kl_gradient(self) -> Tensor:
        """Gradient ``[*, P]`` of minus the divergence from the average policy."""


class CategoricalTerms(ACERTerms):
    r"""The terms of a categorical policy, with exact expectations over the actions.

    Args:
        log_prob: normalized, ``[*, A]``.
        average: log-probabilities of the average policy, ``[*, A]``.
        behavior: those of the behavior policy, ``[*, A]``; ``None`` on-policy.
        values: :math:`Q(s, \cdot)`, ``[*, A]``.
        action: int64 ``[*]``.
        space: of the policy's parameters.
    """

    def __init__(
        self,
        log_prob: Tensor,
        average: Tensor,
        behavior: Tensor | None,
        values: Tensor,
        action: Tensor,
        space: CategoricalSpace,
    ) -> None:
        self._space = space
        self._index = action.unsqueeze(-1)
        finite = log_prob.clamp_min(LOWEST_LOG_PROB)
        self._log_prob = finite.detach()
        self._prob = self._log_prob.exp()
        self._values = values.detach()
        self.value = (self._prob * self._values).sum(-1)
        self.q = self._taken(values)
        self.parameters = F.categorical_parameters(log_prob, space)
        self.entropy = F.categorical_entropy(finite)
        average = average.clamp_min(LOWEST_LOG_PROB)
        self._average_prob = average.exp()
        self.kl = F.categorical_kl(average, self._log_prob)
        self.log_ratio = torch.zeros_like(self.kl)
        if behavior is not None:
            behavior = behavior.clamp_min(LOWEST_LOG_PROB)
            self._log_ratios = F.log_importance_ratio(self._log_prob, behavior)
            self.log_ratio = self._taken(self._log_ratios)

    def critic_loss(self, q_ret: Tensor) -> Tensor:
        r""":math:`\tfrac12 (Q^{ret} - Q(s, a))^2`, ``[*]``."""
        return 0.5 * (q_ret - self.q).square()

    def _policy_gradient(self, weight: Tensor, threshold: float | None) -> tuple[Tensor, Tensor]:
        weights = torch.zeros_like(self._prob).scatter(-1, self._index, weight.unsqueeze(-1))
        if threshold is not None:
            advantage = self._values - self.value.unsqueeze(-1)
            weights = weights + F.expected_correction(
                self._log_ratios, self._prob, advantage, threshold
            )
        loss = -(weights * self._log_prob).sum(-1)
        return loss, F.in_categorical_space(-weights, self._prob, self._space)

    def _kl_gradient(self) -> Tensor:
        return F.in_categorical_space(self._average_prob, self._prob, self._space)

    def _taken(self, values: Tensor) -> Tensor:
        return values.gather(-1, self._index).squeeze(-1)


class GaussianTerms(ACERTerms):
    r"""The terms of an unsquashed diagonal Gaussian, with a stochastic dueling critic.

    Args:
        policy: with gradients.
        average: the average policy.
        behavior: the behavior policy; ``None`` on-policy.
        value: V, ``[*]``.
        q: :math:`Q(s, a)`, ``[*]``.
        action: ``[*, D]``.
        sampled: one action ``[*, D]`` of the policy and its :math:`Q`, ``[*]``; ``None`` where
            nothing is corrected.
        space: of the policy's parameters.
    """

    def __init__(
        self,
        policy: Gaussian,
        average: Gaussian,
        behavior: Gaussian | None,
        value: Tensor,
        q: Tensor,
        action: Tensor,
        sampled: tuple[Tensor, Tensor] | None,
        space: GaussianSpace,
    ) -> None:
        self._space = space
        self._policy = Gaussian(policy.loc.detach(), policy.scale.detach())
        self._average, self._behavior = average, behavior
        self._action, self._sampled = action, sampled
        self.value, self.q = value, q
        self.action_dim = action.shape[-1]
        self.parameters = F.gaussian_parameters(*policy, space)
        self.entropy = F.gaussian_entropy(policy.scale)
        self.kl = F.gaussian_kl(*average, *self._policy)
        self._log_prob = F.gaussian_log_prob(action, *self._policy)
        self.log_ratio = torch.zeros_like(self.kl)
        if behavior is not None:
            self.log_ratio = F.log_importance_ratio(
                self._log_prob, F.gaussian_log_prob(action, *behavior)
            )

    def critic_loss(self, q_ret: Tensor) -> Tensor:
        r"""Loss ``[*]`` of Q and of V.

        .. math:: \tfrac12 (Q^{ret} - Q(s, a))^2
            + \tfrac12 (\min(1, \rho)(Q^{ret} - Q(s, a)) + V(s) - V(s))^2

        where the target of V, all but the last term, has no gradient.
        """
        error = q_ret - self.q
        target = self.value.detach() + self.ratio().clamp_max(1.0) * error.detach()
        return 0.5 * error.square() + 0.5 * (target - self.value).square()

    def _policy_gradient(self, weight: Tensor, threshold: float | None) -> tuple[Tensor, Tensor]:
        loss = -weight * self._log_prob
        gradient = -weight.unsqueeze(-1) * self._score(self._action)
        if threshold is not None:
            assert self._sampled is not None
            assert self._behavior is not None
            action, q = self._sampled
            log_prob = F.gaussian_log_prob(action, *self._policy)
            log_ratio = F.log_importance_ratio(
                log_prob, F.gaussian_log_prob(action, *self._behavior)
            )
            correction = F.correction_weight(log_ratio, threshold) * (q - self.value.detach())
            loss = loss - correction * log_prob
            gradient = gradient - correction.unsqueeze(-1) * self._score(action)
        return loss, gradient

    def _score(self, action: Tensor) -> Tensor:
        return F.gaussian_score(action, *self._policy, self._space)

    def _kl_gradient(self) -> Tensor:
        return F.gaussian_kl_gradient(*self._average, *self._policy, self._space)
