r"""The equations of soft actor-critic, in the order of an update.

====================================  ==========================================================
:func:`reduce_critics`                :math:`Q_{min}`, the minimum over the critics
:func:`weigh_rewards`                 the scalar value of a vector reward
:func:`entropy_bonus`                 :math:`b(s)`, the entropy term in the value of a state
:func:`soft_value`                    :math:`V(s)`, the soft value of a state
:func:`soft_td_target`                :math:`y`, the target of the critics
:func:`critic_loss`                   :math:`L_Q`, and :func:`td_error`, the priority
:func:`actor_loss`                    :math:`L_\pi` of a reparameterized policy
:func:`categorical_actor_loss`        :math:`L_\pi` of a policy over discrete actions
:func:`value_loss`                    :math:`L_V` of a value network
:func:`temperature_loss`              :math:`L_\alpha`
====================================  ==========================================================

The targets of several steps are in :mod:`~rlkit_sac.functional.returns`, the soft-optimal policy
over discrete actions in :mod:`~rlkit_sac.functional.discrete`, target entropies in
:mod:`~rlkit_sac.functional.target_entropy`. With a prior :math:`\pi^0`,
:math:`\log\pi - \log\pi^0` replaces :math:`\log\pi` everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

LossFunction = Literal["l2", "l1", "smooth_l1"]
CriticReduction = Literal["min", "mean"]

_DISTANCES = {"l2": F.mse_loss, "l1": F.l1_loss, "smooth_l1": F.smooth_l1_loss}


def reduce_critics(
    q: Tensor, reward_weights: Tensor | None = None, reduction: CriticReduction = "min"
) -> Tensor:
    r"""Return the minimum or mean over the critics, separately in each reward dimension.

    .. math:: Q_{min,m} = \operatorname{sign}(w_m)\,\min_i\,\operatorname{sign}(w_m)\,Q_{i,m}

    In a dimension with a negative weight the pessimistic value is the maximum. With a weight of
    zero it is the minimum, since that dimension still bootstraps.

    Args:
        q: values ``[R, *, M]`` of R critics for M reward dimensions.
        reward_weights: the weights ``[M]``; ``None`` if all are positive.
        reduction: ``"min"`` (default), or ``"mean"`` for the mean of the critics.

    Returns:
        The reduced values ``[*, M]``.

    Source: Fujimoto et al. 2018 (arXiv:1802.09477), eq. 10, with signed reward weights; the mean as
    in Chen et al. 2021 (arXiv:2101.05982), algorithm 1.

    >>> q = torch.tensor([[[1.0, 1.0]], [[2.0, 3.0]]])
    >>> reduce_critics(q, torch.tensor([0.5, -0.5]))
    tensor([[1., 3.]])
    """
    if reduction == "mean":
        return q.mean(0)
    if reward_weights is None:
        return q.min(0).values
    sign = torch.where(reward_weights < 0, -1.0, 1.0).to(q.dtype)
    return (q * sign).min(0).values * sign


def weigh_rewards(value: Tensor, reward_weights: Tensor | None = None) -> Tensor:
    r"""Return the weighted sum of a vector value, :math:`\sum_m w_m V_m`.

    Args:
        value: the values ``[*, M]``.
        reward_weights: the weights ``[M]``; ``None`` for ones.

    Returns:
        The sum ``[*]``.

    >>> weigh_rewards(torch.tensor([[1.0, 3.0]]), torch.tensor([0.5, -0.5]))
    tensor([-1.])
    """
    if reward_weights is not None:
        value = value * reward_weights
    return value.sum(-1)


def entropy_bonus(log_ratios: Iterable[Tensor], alphas: Iterable[Tensor]) -> Tensor:
    r"""Return the entropy term in the value of a state, summed over the policy's factors.

    .. math:: b(s) = -\textstyle\sum_f \alpha_f \log\pi_f

    Args:
        log_ratios: :math:`\log\pi_f` or minus the entropy of each factor, ``[*]``. With a prior,
            :math:`\log\pi^0_f` is subtracted. At least one factor is needed.
        alphas: the temperature of each factor, a scalar.

    Returns:
        The bonus ``[*]``.

    Source: Haarnoja et al. 2018 (arXiv:1812.05905), eq. 3; several factors as in Delalleau et al.
    2019 (arXiv:1912.11077).

    >>> entropy_bonus([torch.tensor([-1.0, 2.0])], [torch.tensor(0.5)])
    tensor([ 0.5000, -1.0000])
    """
    first, *others = (
        -alpha * log_ratio for log_ratio, alpha in zip(log_ratios, alphas, strict=True)
    )
    return sum(others, first)


def soft_value(value: Tensor, bonus: Tensor) -> Tensor:
    r"""Return the soft value of a state.

    .. math:: V(s) = E_{a\sim\pi}[Q_{min}(s, a)] + b(s)

    Args:
        value: the expected value under the policy, ``[*, M]``. For continuous actions it is the
            value of one sample, for discrete actions
            :func:`~rlkit_sac.functional.expected_value`. For hybrid actions it is the expected
            value over discrete actions at a sampled continuous action.
        bonus: the :func:`entropy_bonus`, ``[*, 1]``, added to every reward dimension.

    Returns:
        The soft value ``[*, M]``.

    Source: Haarnoja et al. 2018 (arXiv:1812.05905), eq. 3.

    >>> soft_value(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5]]))
    tensor([[1.5000, 2.5000]])
    """
    return value + bonus


def soft_td_target(
    reward: Tensor, terminated: Tensor, next_value: Tensor, *, gamma: float | Tensor
) -> Tensor:
    r"""Return the target :math:`y_t = r_t + \gamma (1 - \text{terminated}_t) V(s_{t+1})`.

    Only ``terminated`` stops the bootstrap: a state at a time limit has a value. The next value is
    masked by selection, not by multiplication. So the value of a terminal observation has no
    effect, even if it is NaN.

    Args:
        reward: the rewards ``[*, M]``.
        terminated: whether the episode terminated, bool ``[*, 1]``.
        next_value: soft values ``[*, M]`` of the next states.
        gamma: the discount in [0, 1].

    Returns:
        The target ``[*, M]``.

    Source: Haarnoja et al. 2018 (arXiv:1812.05905), eq. 2-3.

    >>> reward, terminated = torch.ones(2, 1), torch.tensor([[False], [True]])
    >>> soft_td_target(reward, terminated, torch.full((2, 1), 10.0), gamma=0.5)
    tensor([[6.],
            [1.]])
    """
    return reward + gamma * torch.where(terminated, torch.zeros_like(next_value), next_value)


def critic_loss(q: Tensor, target: Tensor, loss_function: LossFunction = "l2") -> Tensor:
    r"""Return the loss of each critic at each step, averaged over reward dimensions.

    .. math:: L_{Q,i} = \tfrac1M \textstyle\sum_m (Q_{i,m}(s, a) - y_m)^2

    The loss of an ensemble is the sum over its R critics.

    Args:
        q: the values ``[R, *, M]``.
        target: the target y, ``[*, M]``, without gradient.
        loss_function: ``"l2"`` (the square, without 1/2), ``"l1"`` or ``"smooth_l1"``.

    Returns:
        The losses ``[R, *]``.

    Source: Haarnoja et al. 2018 (arXiv:1812.05905), eq. 5, without the factor 1/2.

    >>> critic_loss(torch.tensor([[[1.0]], [[4.0]]]), torch.tensor([[2.0]]))
    tensor([[1.],
            [4.]])
    """
    return _DISTANCES[loss_function](q, target.expand_as(q), reduction="none").mean(-1)


def td_error(q: Tensor, target: Tensor) -> Tensor:
    r"""Return the priority :math:`\sqrt{\sum_i \tfrac1M \sum_m (Q_{i,m} - y_m)^2}`.

    Args:
        q: the values ``[R, *, M]``.
        target: the target y, ``[*, M]``.

    Returns:
        The priority ``[*]`` of each transition, without gradient.

    >>> td_error(torch.tensor([[[1.0]], [[4.0]]]), torch.tensor([[0.0]]))
    tensor([4.1231])
    """
    return (q.detach() - target).square().mean(-1).sum(0).sqrt()


def actor_loss(q: Tensor, log_ratio: Tensor, alpha: Tensor) -> Tensor:
    r"""Return the loss of a reparameterized policy at each step.

    .. math:: L_\pi = \alpha \log\pi(a|s) - Q_{min}(s, a)

    Args:
        q: :math:`Q_{min}(s, a)`, ``[*]``, a function of the sampled action; for a hybrid policy
            :math:`\sum_k \operatorname{sg}(\pi_d(k|s, c))\,Q_{min}(s, c)_k`.
        log_ratio: :math:`\log\pi(a|s)`, or :math:`\log\pi - \log\pi^0` with a prior, ``[*]``.
        alpha: the temperature, a scalar.

    Returns:
        The losses ``[*]``.

    Source: Haarnoja et al. 2018 (arXiv:1812.05905), eq. 7 and 9.

    >>> actor_loss(torch.tensor([3.0]), torch.tensor([-1.0]), torch.tensor(0.5))
    tensor([-3.5000])
    """
    return alpha * log_ratio - q


def categorical_actor_loss(
    q: Tensor, log_prob: Tensor, alpha: Tensor, log_prior: Tensor | None = None
) -> Tensor:
    r"""Return the loss of a policy over discrete actions at each step, an exact expectation.

    .. math:: L_\pi = \textstyle\sum_k \pi_k \left[\alpha\log\pi_k - Q_{min,k}\right]

    Args:
        q: the value of each action, ``[*, K]``, without gradient.
        log_prob: log-probabilities :math:`\log\pi_k`, ``[*, K]``.
        alpha: the temperature, a scalar.
        log_prior: log-probabilities under a prior, ``[*, K]``. Default: no prior.

    Returns:
        The losses ``[*]``.

    Source: Christodoulou 2019 (arXiv:1910.07207), eq. 12.

    >>> q, log_prob = torch.tensor([1.0, 3.0]), torch.tensor([0.5, 0.5]).log()
    >>> categorical_actor_loss(q, log_prob, torch.tensor(0.0))
    tensor(-2.)
    """
    log_ratio = log_prob if log_prior is None else log_prob - log_prior
    return (log_prob.exp() * (alpha * log_ratio - q)).sum(-1)


def value_loss(value: Tensor, target: Tensor, loss_function: LossFunction = "l2") -> Tensor:
    r"""Return the loss of a value network at each step, averaged over reward dimensions.

    .. math:: L_V = \tfrac1M \textstyle\sum_m
        \left(V_m(s) - \operatorname{sg}(Q_{min,m}(s, a) + b(s))\right)^2

    Args:
        value: V(s), ``[*, M]``.
        target: the :func:`soft_value` of the live critics, ``[*, M]``, without gradient.
        loss_function: ``"l2"`` (the square, without 1/2), ``"l1"`` or ``"smooth_l1"``.

    Returns:
        The losses ``[*]``.

    Source: Haarnoja et al. 2018 (arXiv:1801.01290), eq. 5, without the factor 1/2.

    >>> value_loss(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 4.0]]))
    tensor([2.5000])
    """
    return _DISTANCES[loss_function](value, target, reduction="none").mean(-1)


def temperature_loss(multiplier: Tensor, entropy: Tensor, target_entropy: float | Tensor) -> Tensor:
    r"""Return the loss of a temperature at each step.

    .. math:: L_\alpha = \log\alpha \cdot
        \operatorname{sg}\left(\mathcal H(\pi(\cdot|s)) - \bar{\mathcal H}\right)

    Args:
        multiplier: :math:`\log\alpha` or :math:`\alpha`, a scalar with gradient.
        entropy: :math:`-\log\pi(a|s)` of a sample, or the exact entropy, ``[*]``, nats.
        target_entropy: the target entropy in nats.

    Returns:
        The losses ``[*]``.

    Source: Haarnoja et al. 2018 (arXiv:1812.05905), eq. 18. :math:`\log\alpha` instead of
    :math:`\alpha` is from the code of that paper.

    >>> temperature_loss(torch.tensor(0.5), torch.tensor([1.0]), -3.0)
    tensor([2.])
    """
    return multiplier * (entropy.detach() - target_entropy)
