"""Reduction over the critics of an ensemble, and over the dimensions of a vector reward."""

from typing import Literal

import torch
from torch import Tensor

CriticReduction = Literal["min", "mean"]


def reduce_critics(
    q: Tensor, reward_weights: Tensor | None = None, reduction: CriticReduction = "min"
) -> Tensor:
    r"""Pessimistic or mean value of an ensemble, separately in each reward dimension.

    .. math:: Q_{min,m} = \operatorname{sign}(w_m)\,\min_i\,\operatorname{sign}(w_m)\,Q_{i,m}

    In a dimension with a negative weight the pessimistic value is the largest. With a weight of
    zero it is the minimum, since that dimension still bootstraps.

    Args:
        q: values ``[R, *, M]`` of R critics for M reward dimensions.
        reward_weights: ``[M]``; ``None`` for positive weights.
        reduction: ``"min"`` (default), or ``"mean"`` for the mean of the critics.

    Returns:
        ``[*, M]``.

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
    r"""Weighted sum of a vector value, :math:`\sum_m w_m V_m`; weights are ones by default.

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
