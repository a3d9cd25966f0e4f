"""Entropies for the temperature to hold the policy at, in nats."""

import math
from collections.abc import Sequence


def continuous_target_entropy(
    low: Sequence[float], high: Sequence[float], min_prob: float = 0.1
) -> float:
    r"""Entropy of a uniform policy that keeps a fraction of each action interval.

    .. math:: H = \sum_d \log\left(p\,(\text{high}_d - \text{low}_d)\right)

    Args:
        low: lower bounds, one for each action dimension, in the units of the stored action.
        high: upper bounds.
        min_prob: the fraction p; 0.1 gives -1.609 nats for each dimension on [-1, 1].

    Returns:
        nats, in the units of the log-density of the action.

    Source: ``calc_default_target_entropy`` of ALF.

    >>> round(continuous_target_entropy([-1.0] * 6, [1.0] * 6), 6)
    -9.656627
    """
    return sum(math.log(min_prob * (h - lo)) for lo, h in zip(low, high, strict=True))


def negative_dimension_target_entropy(dimensions: int) -> float:
    r"""The SAC paper's :math:`-\dim(\mathcal{A})`.

    Source: Haarnoja et al. 2018 (arXiv:1812.05905), appendix D.

    >>> negative_dimension_target_entropy(6)
    -6.0
    """
    return -float(dimensions)
