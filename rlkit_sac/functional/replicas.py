"""Reduction over the critics of an ensemble, and over the dimensions of a vector reward."""

import torch
from torch import Tensor


def reduce_replicas(q: Tensor, reward_weights: Tensor | None = None) -> Tensor:
    r"""Pessimistic value of an ensemble, for each reward dimension on its own.

    .. math:: Q_{min,m} = \operatorname{sign}(w_m)\,\min_i\,\operatorname{sign}(w_m)\,Q_{i,m}

    A dimension with a negative weight counts against the agent, so its pessimistic value is the
    largest. A weight of zero takes the plain minimum: that dimension must still bootstrap.

    Args:
        q: values ``[R, *, M]`` of R critics for M reward dimensions.
        reward_weights: ``[M]``; ``None`` stands for positive weights.

    Returns:
        ``[*, M]``.

    Source: Fujimoto et al. 2018 (arXiv:1802.09477), eq. 10, with signed reward weights.

    >>> q = torch.tensor([[[1.0, 1.0]], [[2.0, 3.0]]])
    >>> reduce_replicas(q, torch.tensor([0.5, -0.5]))
    tensor([[1., 3.]])
    """
    if reward_weights is None:
        return q.min(0).values
    sign = torch.where(reward_weights < 0, -1.0, 1.0).to(q.dtype)
    return (q * sign).min(0).values * sign


def weigh_rewards(value: Tensor, reward_weights: Tensor | None = None) -> Tensor:
    r"""Scalar value of a vector one, :math:`\sum_m w_m V_m`; every weight is one by default.

    Args:
        value: ``[*, M]``.
        reward_weights: ``[M]`` or ``None``.

    Returns:
        ``[*]``.

    >>> weigh_rewards(torch.tensor([[1.0, 3.0]]), torch.tensor([0.5, -0.5]))
    tensor([-1.])
    """
    if reward_weights is not None:
        value = value * reward_weights
    return value.sum(-1)
