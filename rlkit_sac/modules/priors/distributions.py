"""Distributions over closed boxes, with finite log-densities on the bounds."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from tensordict import NestedKey, TensorDictBase
from torch import Tensor
from torch.distributions import Distribution


class BoxDistribution(Distribution, ABC):
    """A distribution over a closed box with independent dimensions.

    An action outside of the box, by rounding, is scored as the nearest one inside.

    Args:
        low: lower bounds ``[D]``.
        high: upper bounds ``[D]``.
        batch_shape: of the distribution.
    """

    arg_constraints = {}  # noqa: RUF012  (torch's own declaration)

    def __init__(self, low: Tensor, high: Tensor, batch_shape: torch.Size) -> None:
        self.low, self.high = low, high
        super().__init__(batch_shape, low.shape, validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density ``[*]`` of actions ``[*, D]``, in their units."""
        return self.log_probs(value).sum(-1)

    @abstractmethod
    def log_probs(self, value: Tensor) -> Tensor:
        """Log-density of each dimension, ``[*, D]``."""


class BoxUniform(BoxDistribution):
    r"""The uniform distribution over a closed box.

    .. math:: \log\pi(a) = -\sum_d \log(\text{high}_d - \text{low}_d)

    >>> box = BoxUniform(torch.tensor([-1.0]), torch.tensor([1.0]), torch.Size([2]))
    >>> box.log_prob(torch.tensor([[0.3], [1.0]]))
    tensor([-0.6931, -0.6931])
    """

    def log_probs(self, value: Tensor) -> Tensor:
        """Log-density of each dimension, ``[*, D]``."""
        return -(self.high - self.low).log().to(value).expand(value.shape)


class SameActionMixture(BoxDistribution):
    r"""Mixture of a wide normal distribution and a narrow one around the previous action.

    In each dimension, with :math:`R = \text{high} - \text{low}`, both truncated to ``[low, high]``,

    .. math:: \pi(a) = (1-p)\,\mathcal N_{[l,h]}\!\left(\tfrac{l+h}{2}, R\right)
        + p\,\mathcal N_{[l,h]}(a_{before}, \text{noise}\cdot R)

    Args:
        low: lower bounds ``[D]``.
        high: upper bounds ``[D]``.
        before: the previous action ``[*, D]``.
        prob: p, in [0, 1].
        noise: standard deviation of the narrow component in widths of the box.
        is_init: bool ``[*, 1]``, where there is no previous action: p is 0 there.

    >>> one = torch.ones(1)
    >>> before, is_init = torch.zeros(2, 1), torch.tensor([[False], [True]])
    >>> SameActionMixture(-one, one, before, 0.9, 0.1, is_init).log_prob(torch.zeros(2, 1)).exp()
    tensor([1.8473, 0.5209])
    """

    def __init__(
        self,
        low: Tensor,
        high: Tensor,
        before: Tensor,
        prob: float,
        noise: float,
        is_init: Tensor,
    ) -> None:
        super().__init__(low, high, before.shape[:-1])
        self.before, self.prob, self.noise, self.is_init = before, prob, noise, is_init

    def log_probs(self, value: Tensor) -> Tensor:
        """Log-density of each dimension, ``[*, D]``."""
        low, high = self.low.to(value), self.high.to(value)
        inside = value.clamp(low, high)
        wide = _log_truncated_normal(inside, 0.5 * (low + high), high - low, low, high)
        before = self.before.to(value).clamp(low, high)
        narrow = _log_truncated_normal(inside, before, self.noise * (high - low), low, high)
        mixed = torch.logaddexp(log_of(1 - self.prob) + wide, log_of(self.prob) + narrow)
        return torch.where(self.is_init, wide, mixed)


class FactoredDistribution(Distribution):
    """Distributions of the parts of an action, each given the parts before it.

    Args:
        dists: by the key or name of the part, as in TorchRL's ``CompositeDistribution``.
    """

    arg_constraints = {}  # noqa: RUF012  (torch's own declaration)

    def __init__(self, dists: Mapping[NestedKey, Distribution]) -> None:
        self.dists = dict(dists)
        super().__init__(next(iter(self.dists.values())).batch_shape, validate_args=False)

    def log_prob(self, value: TensorDictBase) -> Tensor:
        """Log-density ``[*]`` of all parts together, each found under its key."""
        parts = [dist.log_prob(value.get(key)) for key, dist in self.dists.items()]
        return torch.stack(parts).sum(0)


def _log_truncated_normal(
    value: Tensor, mean: Tensor, scale: Tensor, low: Tensor, high: Tensor
) -> Tensor:
    """Log-density of a normal distribution whose mean lies inside of its bounds."""
    # Each side of the mean by itself: both are positive, so that their sum loses no digits.
    unit = math.sqrt(2) * scale
    mass = 0.5 * (((high - mean) / unit).erf() + ((mean - low) / unit).erf())
    normal = -0.5 * ((value - mean) / scale).square() - scale.log() - 0.5 * math.log(2 * math.pi)
    return normal - mass.log()


def log_of(probability: float) -> float:
    """The logarithm of a probability, minus infinity for 0.

    >>> log_of(0.0)
    -inf
    """
    return math.log(probability) if probability > 0 else -math.inf
