"""Policies over discrete actions, and expected values under them."""

import math

import torch
from torch import Tensor

#: The smallest log-probability; smaller ones are clamped to it. Its exponential is zero in every
#: dtype. The product of the two is zero, where minus infinity would give NaN.
LOWEST_LOG_PROB = -1e4


def mask_logits(logits: Tensor, allowed: Tensor | None) -> Tensor:
    """Return the logits with minus infinity for forbidden actions.

    Args:
        logits: the logits ``[*, K]``.
        allowed: the allowed actions, bool ``[*, K]``; ``None`` if all are allowed. A row without an
            allowed action, such as a padded step, counts as a row that allows every action.

    >>> mask_logits(torch.tensor([0.0, 2.0]), torch.tensor([True, False]))
    tensor([0., -inf])
    """
    if allowed is None:
        return logits
    return logits.masked_fill(~(allowed | ~allowed.any(-1, keepdim=True)), -math.inf)


def zero_forbidden(value: Tensor, allowed: Tensor | None, dim: int = -1) -> Tensor:
    """Return the values with 0 for forbidden actions.

    The probability of a forbidden action is 0. Its product with an infinite value would be NaN. A
    row without an allowed action counts as a row that allows every action: its finite values stay.

    Args:
        value: the values ``[..., *, K]`` or ``[..., *, K, M]``.
        allowed: the allowed actions, bool ``[*, K]`` or ``[*, K, 1]``; ``None`` if all are allowed.
        dim: the dimension of the actions.

    >>> zero_forbidden(torch.tensor([-torch.inf, 2.0]), torch.tensor([False, True]))
    tensor([0., 2.])
    """
    if allowed is None:
        return value
    kept = allowed | (value.isfinite() & ~allowed.any(dim, keepdim=True))
    return torch.where(kept, value, torch.zeros_like(value))


def count_allowed(allowed: Tensor) -> Tensor:
    """Return the number ``[*]`` of allowed actions in a mask, as :func:`mask_logits` reads it.

    >>> count_allowed(torch.tensor([[True, False, True], [False, False, False]]))
    tensor([2, 3])
    """
    count = allowed.sum(-1)
    return torch.where(count > 0, count, allowed.shape[-1])


def boltzmann_log_prob(
    value: Tensor,
    alpha: Tensor | float,
    log_prior: Tensor | None = None,
    allowed: Tensor | None = None,
) -> Tensor:
    r"""Return the log-probabilities of the policy that is soft-optimal for some action values.

    .. math:: \log\pi_k = Q_k/\alpha - \log\textstyle\sum_j e^{Q_j/\alpha}

    With a prior :math:`\pi^0`, the policy is optimal with a penalty on the divergence from it,

    .. math:: \log\pi_k = Q_k/\alpha + \log\pi^0_k
        - \log\textstyle\sum_j \pi^0_j e^{Q_j/\alpha}

    A temperature of zero, or below the smallest normal number, gives the greedy policy.

    Args:
        value: one value for each action, ``[*, K]``.
        alpha: the temperature, a scalar >= 0.
        log_prior: log-probabilities ``[*, K]`` of a prior; default none. An action at
            :data:`LOWEST_LOG_PROB` or below is never chosen.
        allowed: the actions to choose among, bool ``[*, K]``. Default: all.

    Returns:
        The log-probabilities ``[*, K]``, none below :data:`LOWEST_LOG_PROB`. Forbidden actions have
        this value.

    Source: Haarnoja et al. 2017 (arXiv:1702.08165), theorem 1.

    >>> boltzmann_log_prob(torch.tensor([1.0, 1.0, 0.0]), 0.5).exp()
    tensor([0.4683, 0.4683, 0.0634])
    >>> boltzmann_log_prob(torch.tensor([1.0, 1.0, 0.0]), 0.0).exp()
    tensor([0.5000, 0.5000, 0.0000])
    >>> boltzmann_log_prob(torch.zeros(2), 0.5, torch.tensor([0.1, 0.9]).log()).exp()
    tensor([0.1000, 0.9000])
    """
    alpha = torch.as_tensor(alpha, dtype=value.dtype, device=value.device)
    if allowed is None:
        best = value.amax(-1, keepdim=True)
    else:
        best = mask_logits(value, allowed).amax(-1, keepdim=True)
        value = torch.minimum(value, best)
    below_best = value - best
    logits = below_best / alpha.clamp_min(torch.finfo(value.dtype).tiny)
    if log_prior is not None:
        logits = logits + log_prior.masked_fill(log_prior <= LOWEST_LOG_PROB, -math.inf)
    return normalized_log_prob(logits, allowed)


def normalized_log_prob(logits: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Return the log-probabilities ``[*, K]`` of logits, finite where a logit is minus infinity.

    Args:
        logits: the logits ``[*, K]``.
        allowed: the allowed actions, bool ``[*, K]``; the other actions get
            :data:`LOWEST_LOG_PROB`. Default: all.

    >>> normalized_log_prob(torch.tensor([0.0, -torch.inf]))
    tensor([     0., -10000.])
    """
    if allowed is not None:
        logits = mask_logits(logits, allowed)
    return logits.log_softmax(-1).clamp_min(LOWEST_LOG_PROB)


def sample_categorical(log_prob: Tensor) -> Tensor:
    r"""Sample one index from each distribution, :math:`\arg\max_k (\log\pi_k - \log E_k)`.

    The :math:`E_k` are exponential variables. Unlike ``torch.multinomial`` this does not
    synchronize with the CPU, so a CUDA graph can contain it.

    Args:
        log_prob: log-probabilities ``[*, K]``; they need not be normalized.

    Returns:
        The indices, int64 ``[*]``.

    >>> sample_categorical(torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]]))
    tensor([0, 1])
    """
    waiting_time = torch.empty_like(log_prob).exponential_()
    shortest = torch.finfo(log_prob.dtype).tiny
    return (log_prob - waiting_time.clamp_min(shortest).log()).argmax(-1)


def expected_value(value: Tensor, prob: Tensor) -> Tensor:
    r"""Return the expected value under a policy, :math:`\sum_k \pi_k Q_{k,m}`.

    Args:
        value: the value of each action, ``[*, K, M]``.
        prob: the probability of each action, ``[*, K]``.

    Returns:
        The expected value ``[*, M]``.

    >>> expected_value(torch.tensor([[1.0], [3.0]]), torch.tensor([0.25, 0.75]))
    tensor([2.5000])
    """
    return (prob.unsqueeze(-1) * value).sum(-2)


def taken_value(value: Tensor, action: Tensor) -> Tensor:
    """Return the values of the actions that were taken.

    Args:
        value: the values ``[R, *, K, M]`` of R critics.
        action: the index of each action, int64 ``[*]``, from 0 to K - 1.

    Returns:
        The values ``[R, *, M]``.

    >>> taken_value(torch.tensor([[[[1.0], [2.0]], [[3.0], [4.0]]]]), torch.tensor([0, 1]))
    tensor([[[1.],
             [4.]]])
    """
    index = action.unsqueeze(-1).unsqueeze(-1).expand(*value.shape[:-2], 1, value.shape[-1])
    return value.gather(-2, index).squeeze(-2)
