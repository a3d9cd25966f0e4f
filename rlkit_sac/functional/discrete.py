"""Policies over discrete actions, and expected values under them."""

import math

import torch
from torch import Tensor

#: A log-probability below this one counts as this one. Its exponential is zero in every dtype, and
#: the product of the two is zero as well, where minus infinity would give NaN.
LOWEST_LOG_PROB = -1e4


def mask_logits(logits: Tensor, allowed: Tensor | None) -> Tensor:
    """Logits, minus infinity for the actions that are forbidden.

    Args:
        logits: ``[*, K]``.
        allowed: bool ``[*, K]``, or ``None`` where all are. A row that allows nothing, as those of
            padded steps, counts as one that allows everything.

    >>> mask_logits(torch.tensor([0.0, 2.0]), torch.tensor([True, False]))
    tensor([0., -inf])
    """
    if allowed is None:
        return logits
    return logits.masked_fill(~(allowed | ~allowed.any(-1, keepdim=True)), -math.inf)


def without_forbidden(value: Tensor, allowed: Tensor | None, dim: int = -1) -> Tensor:
    """Values with 0 for forbidden actions, of which none then overflows or is not finite.

    Their probability is 0, and the product of the two would be NaN. A row that allows none counts
    as one that allows all: its finite values stay.

    Args:
        value: ``[..., *, K]`` or ``[..., *, K, M]``.
        allowed: bool ``[*, K]`` or ``[*, K, 1]``; ``None`` where all are.
        dim: that of the actions.

    >>> without_forbidden(torch.tensor([-torch.inf, 2.0]), torch.tensor([False, True]))
    tensor([0., 2.])
    """
    if allowed is None:
        return value
    kept = allowed | (value.isfinite() & ~allowed.any(dim, keepdim=True))
    return torch.where(kept, value, torch.zeros_like(value))


def count_allowed(allowed: Tensor) -> Tensor:
    """Number of allowed actions ``[*]``, of a mask as :func:`mask_logits` reads it.

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
    r"""Log-probabilities of the soft-optimal policy of given action values.

    .. math:: \log\pi_k = Q_k/\alpha - \log\textstyle\sum_j e^{Q_j/\alpha}

    With a prior :math:`\pi^0`, the policy that is optimal with a penalty on the divergence from it,

    .. math:: \log\pi_k = Q_k/\alpha + \log\pi^0_k
        - \log\textstyle\sum_j \pi^0_j e^{Q_j/\alpha}

    A temperature of zero, or below the smallest normal number, gives the greedy policy.

    Args:
        value: ``[*, K]``, one value for each action.
        alpha: the temperature, a scalar >= 0.
        log_prior: log-probabilities ``[*, K]`` of a prior; default none. An action at
            :data:`LOWEST_LOG_PROB` or below is never chosen.
        allowed: bool ``[*, K]``, the actions to choose among; default all.

    Returns:
        ``[*, K]``, none below :data:`LOWEST_LOG_PROB`, which forbidden actions have.

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
    """Log-probabilities ``[*, K]`` of logits, finite where a logit is minus infinity.

    Args:
        logits: ``[*, K]``.
        allowed: bool ``[*, K]``; the others get :data:`LOWEST_LOG_PROB`. Default all.

    >>> normalized_log_prob(torch.tensor([0.0, -torch.inf]))
    tensor([     0., -10000.])
    """
    if allowed is not None:
        logits = mask_logits(logits, allowed)
    return logits.log_softmax(-1).clamp_min(LOWEST_LOG_PROB)


def sample_categorical(log_prob: Tensor) -> Tensor:
    r"""One index for each distribution, :math:`\arg\max_k (\log\pi_k - \log E_k)`.

    The E are exponential variables. It does not synchronize with the CPU, so that it can be
    captured in a CUDA graph, unlike ``torch.multinomial``.

    Args:
        log_prob: ``[*, K]``; need not be normalized.

    Returns:
        int64 ``[*]``.

    >>> sample_categorical(torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]]))
    tensor([0, 1])
    """
    waiting_time = torch.empty_like(log_prob).exponential_()
    shortest = torch.finfo(log_prob.dtype).tiny
    return (log_prob - waiting_time.clamp_min(shortest).log()).argmax(-1)


def expected_value(value: Tensor, prob: Tensor) -> Tensor:
    r"""Value under a policy, :math:`\sum_k \pi_k Q_{k,m}`.

    Args:
        value: ``[*, K, M]``.
        prob: ``[*, K]``.

    Returns:
        ``[*, M]``.

    >>> expected_value(torch.tensor([[1.0], [3.0]]), torch.tensor([0.25, 0.75]))
    tensor([2.5000])
    """
    return (prob.unsqueeze(-1) * value).sum(-2)


def taken_value(value: Tensor, action: Tensor) -> Tensor:
    """Values of the actions that were taken.

    Args:
        value: ``[R, *, K, M]`` of R critics.
        action: int64 ``[*]``, from 0 to K - 1.

    Returns:
        ``[R, *, M]``.

    >>> taken_value(torch.tensor([[[[1.0], [2.0]], [[3.0], [4.0]]]]), torch.tensor([0, 1]))
    tensor([[[1.],
             [4.]]])
    """
    index = action.unsqueeze(-1).unsqueeze(-1).expand(*value.shape[:-2], 1, value.shape[-1])
    return value.gather(-2, index).squeeze(-2)
