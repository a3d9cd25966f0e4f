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


class Gaussian(NamedTuple):
    """The mean and the standard deviation of a diagonal Gaussian, ``[*, D]`` each."""

    loc: Tensor
    scale: Tensor


class ACERTerms(ABC):
    r"""The terms of ACER's losses at the steps ``[*]`` of segments.

    Attributes:
        value: V, ``[*]``, with gradient for Gaussian policies only.
        q: :math:`Q(s, a)` of the stored action, ``[*]``.
        parameters: :math:`\phi`, ``[*, P]``.
        entropy: the entropy ``[*]`` in nats.
        kl: :math:`D(\bar\pi \Vert \pi)`, nats, ``[*]``, without gradient.
        log_ratio: :math:`\log\rho` of the stored action, ``[*]``, without gradient; 0 on-policy.
        action_dim: the number D of dimensions in the exponent of the traces.
    """

    value: Tensor
    q: Tensor
    parameters: Tensor
    entropy: Tensor
    kl: Tensor
    log_ratio: Tensor
    action_dim: int = 1

    @abstractmethod
    def policy_gradient(self, weight: Tensor, threshold: float | None) -> tuple[Tensor, Tensor]:
        r"""Return the value ``[*]`` of the policy loss and its gradient g ``[*, P]``.

        .. math:: L_\pi = -w \log\pi(a|s)
            - E_{u\sim\pi}\left[[1 - c/\rho(u)]_+ (Q(s, u) - V(s)) \log\pi(u|s)\right], \qquad
            g = \partial L_\pi / \partial\phi

        Args:
            weight: the weight w, :math:`\min(c, \rho)` times the advantage, ``[*]``.
            threshold: the threshold c of the bias correction; ``None`` for no correction.
        """

    @abstractmethod
    def kl_gradient(self) -> Tensor:
        r"""Return :math:`k = -\partial D(\bar\pi \Vert \pi) / \partial\phi`, ``[*, P]``."""


class CategoricalTerms(ACERTerms):
    r"""The terms of a categorical policy, with exact expectations over the actions.

    Args:
        log_prob: normalized log-probabilities of the policy, ``[*, A]``.
        average: log-probabilities of the average policy, ``[*, A]``.
        behavior: log-probabilities of the behavior policy, ``[*, A]``; ``None`` on-policy.
        values: :math:`Q(s, \cdot)`, ``[*, A]``.
        action: the stored actions, int64 ``[*]``.
        allowed: the allowed actions, bool ``[*, A]``. The values of other actions are ignored,
            except ``q`` of a stored action. ``None`` if all actions are allowed.
        space: the space of the policy's parameters.
    """

    def __init__(
        self,
        log_prob: Tensor,
        average: Tensor,
        behavior: Tensor | None,
        values: Tensor,
        action: Tensor,
        space: CategoricalSpace,
        allowed: Tensor | None = None,
    ) -> None:
        self._space = space
        self._index = action.unsqueeze(-1)
        finite = log_prob.clamp_min(LOWEST_LOG_PROB)
        self._log_prob = finite.detach()
        self._prob = self._log_prob.exp()
        self.q = self._gather_taken(values)
        if allowed is not None:
            values = F.zero_forbidden(values, allowed)
        self._values = values.detach()
        self.value = (self._prob * self._values).sum(-1)
        self.parameters = F.categorical_parameters(log_prob, space)
        self.entropy = F.categorical_entropy(finite)
        average = average.clamp_min(LOWEST_LOG_PROB)
        self._average_prob = average.exp()
        self.kl = F.categorical_kl(average, self._log_prob)
        self.log_ratio = torch.zeros_like(self.kl)
        if behavior is not None:
            behavior = behavior.clamp_min(LOWEST_LOG_PROB)
            self._log_ratios = F.log_importance_ratio(self._log_prob, behavior)
            self.log_ratio = self._gather_taken(self._log_ratios)

    def policy_gradient(self, weight: Tensor, threshold: float | None) -> tuple[Tensor, Tensor]:
        """Return the loss and g, with the exact expectation over all actions (eq. 9)."""
        weights = torch.zeros_like(self._prob).scatter(-1, self._index, weight.unsqueeze(-1))
        if threshold is not None:
            advantage = self._values - self.value.unsqueeze(-1)
            weights = weights + F.expected_bias_correction(
                self._log_ratios, self._prob, advantage, threshold
            )
        loss = -(weights * self._log_prob).sum(-1)
        # The gradient with respect to log pi is -weights.
        return loss, F.categorical_gradient(-weights, self._prob, self._space)

    def kl_gradient(self) -> Tensor:
        """Return k; the gradient of -D with respect to log pi is the average policy."""
        return F.categorical_gradient(self._average_prob, self._prob, self._space)

    def _gather_taken(self, values: Tensor) -> Tensor:
        return values.gather(-1, self._index).squeeze(-1)


class GaussianTerms(ACERTerms):
    r"""The terms of an unsquashed diagonal Gaussian, with a stochastic dueling critic.

    Args:
        policy: the policy, with gradients.
        average: the average policy.
        behavior: the behavior policy; ``None`` on-policy.
        value: the value V, ``[*]``.
        q: :math:`Q(s, a)`, ``[*]``.
        action: the stored actions ``[*, D]``.
        sample: an action ``[*, D]`` sampled from the policy and its :math:`Q`, ``[*]``; ``None``
            without bias correction.
        space: the space of the policy's parameters.
    """

    def __init__(
        self,
        policy: Gaussian,
        average: Gaussian,
        behavior: Gaussian | None,
        value: Tensor,
        q: Tensor,
        action: Tensor,
        sample: tuple[Tensor, Tensor] | None,
        space: GaussianSpace,
    ) -> None:
        self._space = space
        self._policy = Gaussian(policy.loc.detach(), policy.scale.detach())
        self._average, self._behavior = average, behavior
        self._action, self._sample = action, sample
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

    def policy_gradient(self, weight: Tensor, threshold: float | None) -> tuple[Tensor, Tensor]:
        """Return the loss and g, with one sampled action in the expectation (eq. 9)."""
        loss = -weight * self._log_prob
        gradient = -weight.unsqueeze(-1) * self._score(self._action)
        if threshold is not None:
            assert self._sample is not None
            assert self._behavior is not None
            action, q = self._sample
            log_prob = F.gaussian_log_prob(action, *self._policy)
            log_ratio = F.log_importance_ratio(
                log_prob, F.gaussian_log_prob(action, *self._behavior)
            )
            correction = F.bias_correction_weight(log_ratio, threshold) * (q - self.value.detach())
            loss = loss - correction * log_prob
            gradient = gradient - correction.unsqueeze(-1) * self._score(action)
        return loss, gradient

    def _score(self, action: Tensor) -> Tensor:
        return F.gaussian_score(action, *self._policy, self._space)

    def kl_gradient(self) -> Tensor:
        """Return the gradient k of minus the divergence."""
        return F.gaussian_kl_gradient(*self._average, *self._policy, self._space)
