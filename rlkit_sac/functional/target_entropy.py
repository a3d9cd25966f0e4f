"""Target entropies for the temperature, in nats."""

import math
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

Number = TypeVar("Number", float, Tensor)


def continuous_target_entropy(
    low: Sequence[float], high: Sequence[float], min_prob: float = 0.1
) -> float:
    r"""Return the entropy of a uniform policy over a fraction of each action interval.

    .. math:: H = \sum_d \log\left(p\,(\text{high}_d - \text{low}_d)\right)

    Args:
        low: lower bounds, one for each action dimension, in the units of the stored action.
        high: upper bounds.
        min_prob: the fraction p; 0.1 gives -1.609 nats for each dimension on [-1, 1].

    Returns:
        The entropy in nats, in the units of the log-density of the action.

    Source: ``calc_default_target_entropy`` of ALF.

    >>> round(continuous_target_entropy([-1.0] * 6, [1.0] * 6), 6)
    -9.656627
    """
    return sum(math.log(min_prob * (h - lo)) for lo, h in zip(low, high, strict=True))


def negative_dimension_target_entropy(dimensions: int) -> float:
    r"""Return :math:`-\dim(\mathcal{A})`, the target entropy of the SAC paper.

    Source: Haarnoja et al. 2018 (arXiv:1812.05905), appendix D.

    >>> negative_dimension_target_entropy(6)
    -6.0
    """
    return -float(dimensions)


def discrete_target_entropy(num_actions: Number, min_prob: float = 0.1) -> Number:
    r"""Return the entropy of a policy that spreads a small probability over all actions but one.

    .. math:: H = p\,(\log(K-1) - \log p) - (1-p)\log(1-p)

    Args:
        num_actions: the number K of actions, or one number for each state, ``[*]``. A single action
            has no entropy.
        min_prob: the probability p of not taking the preferred action, in (0, 1].

    Source: ``calc_default_target_entropy`` of ALF.

    >>> round(discrete_target_entropy(2), 6)
    0.325083
    """
    if isinstance(num_actions, Tensor):
        others = min_prob * (num_actions - 1).clamp_min(1).log()
        return torch.where(num_actions > 1, others + discrete_target_entropy(2, min_prob), 0.0)
    if num_actions == 1:
        return 0.0
    preferred = 1 - min_prob
    entropy_of_preferred = -preferred * math.log(preferred) if preferred > 0 else 0.0
    return min_prob * (math.log(num_actions - 1) - math.log(min_prob)) + entropy_of_preferred


def scaled_log_target_entropy(num_actions: Number) -> Number:
    r"""Return :math:`0.98 \log K`, a little less than the entropy of a uniform policy.

    Source: Christodoulou 2019 (arXiv:1910.07207), appendix.

    >>> round(scaled_log_target_entropy(2), 6)
    0.679284
    """
    if isinstance(num_actions, Tensor):
        return 0.98 * num_actions.log()
    return 0.98 * math.log(num_actions)
