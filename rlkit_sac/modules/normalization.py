"""Running statistics, and normalization of observations and rewards with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from tensordict.utils import unravel_key
from torch import Tensor, distributed, nn
from torch.distributed import ProcessGroup
from torch.distributions import Distribution

from rlkit_sac.functional.value_distribution import LARGEST_VALUE
from rlkit_sac.modules.blueprints import blueprint_property

_EPS = 1e-8  # added to variances, which may be 0
_AS_OBSERVED = "as_observed"  # the entry with the observation before normalization


class RunningStatistics(nn.Module):
    r"""Mean and variance of all values so far, in buffers.

    Values come in groups of m. The mean :math:`\bar x` and the sum of squared deviations :math:`S`
    of a group are merged with the mean and the sum of the n values before (Chan et al. 1979, eq.
    2.1):

    .. math::
        \mu' &= \mu + \delta \frac{m}{n + m}, \qquad \delta = \bar x - \mu \\
        M' &= M + S + \delta^2 \frac{n m}{n + m}, \qquad \sigma^2 = M / n

    Args:
        shape: the shape of one value.
        dtype: the dtype of the statistics. Default: float64.
        group: processes whose values are merged. All of them update at the same time, with the same
            number of values.

    >>> statistics = RunningStatistics([1])
    >>> statistics.update(torch.tensor([[1.0], [2.0]]))
    >>> statistics.update(torch.tensor([[6.0]]))
    >>> statistics.mean, statistics.variance
    (tensor([3.], dtype=torch.float64), tensor([4.6667], dtype=torch.float64))
    """

    count: Tensor
    mean: Tensor
    deviations: Tensor

    def __init__(
        self,
        shape: Sequence[int],
        *,
        dtype: torch.dtype = torch.float64,
        group: ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        self.group = group
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(*shape, dtype=dtype))
        self.register_buffer("deviations", torch.zeros(*shape, dtype=dtype))

    @property
    def variance(self) -> Tensor:
        """The mean squared deviation; 1 before the first value."""
        return torch.where(self.count > 0, self.deviations / self.count.clamp(min=1), 1.0)

    @torch.no_grad()
    def update(self, values: Tensor) -> None:
        """Update the statistics with values ``[m, *shape]``."""
        if not len(values):
            return
        values = values.to(self.mean)
        if self.group is not None:
            parts = [torch.empty_like(values) for _ in range(self.group.size())]
            distributed.all_gather(parts, values.contiguous(), group=self.group)
            values = torch.cat(parts)
        # In place: policies and compiled updates keep references to the buffers.
        number, count, overall = len(values), self.count, self.mean
        variance, mean = torch.var_mean(values, 0, correction=0)
        delta = mean - overall
        spread = delta.square() * count
        count += number
        self.deviations.add_(variance + spread / count, alpha=number)
        overall += delta * number / count


class ObservationNormalizer(nn.Module):
    r"""A normalizer that subtracts the running mean of observations and divides by the deviation.

    .. math:: \tilde s = \operatorname{clip}((s - \mu) / \sqrt{\sigma^2 + 10^{-8}}, -c, c)

    Calls do not change the statistics; only :meth:`update` does.

    Args:
        observation_dim: length of the observation.
        clip: the bound c; ``None`` for no bound. Default: 10.
        key: the entry that is normalized.
        dtype: the dtype of the statistics.
        group: see :class:`RunningStatistics`.

    Source: Baselines' ``VecNormalize``; see Andrychowicz et al. 2021 (arXiv:2006.05990), C64.

    >>> normalizer = ObservationNormalizer(1)
    >>> normalizer.update(torch.tensor([[1.0], [3.0]]))
    >>> normalizer(torch.tensor([4.0]))
    tensor([2.])
    """

    def __init__(
        self,
        observation_dim: int,
        *,
        clip: float | None = 10.0,
        key: NestedKey = "observation",
        dtype: torch.dtype = torch.float64,
        group: ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        self.observation_dim, self.clip, self.key = observation_dim, clip, key
        self.statistics = RunningStatistics([observation_dim], dtype=dtype, group=group)

    blueprint = blueprint_property("observation_dim", "clip", "key")

    def update(self, observation: Tensor) -> None:
        """Update the statistics with observations ``[*, observation_dim]``."""
        self.statistics.update(observation.reshape(-1, self.observation_dim))

    def forward(self, observation: Tensor) -> Tensor:
        """Return the normalized observation, in the dtype of ``observation``."""
        scale = (self.statistics.variance + _EPS).rsqrt()
        normalized = (observation - self.statistics.mean) * scale
        return _clip(normalized, self.clip).to(observation.dtype)

    def normalize_states(self, states: TensorDictBase) -> TensorDictBase:
        """Return states with a normalized observation, see :func:`restore_observation`."""
        observation = states[self.key]
        copy = states.copy().set(self.key, self(observation))
        return copy.set(unravel_key((_AS_OBSERVED, self.key)), observation)


def restore_observation(states: TensorDictBase) -> TensorDictBase:
    """Return the states with the observation before an `ObservationNormalizer` normalized it.

    >>> from tensordict import TensorDict
    >>> normalizer = ObservationNormalizer(1)
    >>> normalizer.update(torch.tensor([[1.0], [3.0]]))
    >>> states = normalizer.normalize_states(TensorDict(observation=torch.tensor([4.0])))
    >>> states["observation"], restore_observation(states)["observation"]
    (tensor([2.]), tensor([4.]))
    """
    raw = states.get(_AS_OBSERVED, None)
    return states if raw is None else states.exclude(_AS_OBSERVED).update(raw)


class RewardNormalizer(nn.Module):
    r"""A normalizer that divides rewards by the running deviation of the discounted return.

    .. math::
        G_t &= r_t + \gamma\,(1 - \text{done}_{t-1})\,G_{t-1}, \qquad
        \tilde r &= \operatorname{clip}(r / \sqrt{\operatorname{Var}(G) + 10^{-8}}, -c, c)

    The variance is over all G of all environments so far, separately for each reward dimension. The
    mean is not subtracted, since that would change the optimal policy. Calls do not change the
    statistics; only :meth:`update` does.

    With ``bounded`` the divisor is :math:`\max(\sqrt{\operatorname{Var}(G) + 10^{-8}}, \max|G|/5)`.
    Then returns are about 5 at most, the range of :mod:`~rlkit_sac.functional.value_distribution`;
    they are larger where large rewards come first, since :math:`G_t` looks back.

    Args:
        gamma: the discount per frame.
        num_envs: the number of environments that are stepped together.
        reward_dim: the number of reward dimensions.
        clip: the bound c; ``None`` for no bound. Default: 10.
        bounded: whether to divide by a fifth of the largest return if this is the larger divisor.
        dtype: the dtype of the statistics.
        group: see :class:`RunningStatistics`.

    Source: Baselines' ``VecNormalize``; see Engstrom et al. 2020 (arXiv:2005.12729), section 3. The
    bound is from Lee et al. 2025 (arXiv:2502.15280).

    >>> normalizer = RewardNormalizer(0.5)
    >>> normalizer.update(torch.tensor([[1.0], [4.5]]), torch.zeros(2, 1, dtype=torch.bool))
    >>> normalizer.statistics.mean  # of 1 and 5
    tensor([3.], dtype=torch.float64)
    >>> normalizer(torch.tensor([4.0]))
    tensor([2.])
    """

    returns: Tensor
    largest: Tensor

    def __init__(
        self,
        gamma: float,
        *,
        num_envs: int = 1,
        reward_dim: int = 1,
        clip: float | None = 10.0,
        bounded: bool = False,
        dtype: torch.dtype = torch.float64,
        group: ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        self.gamma, self.clip, self.bounded = gamma, clip, bounded
        self.statistics = RunningStatistics([reward_dim], dtype=dtype, group=group)
        self.register_buffer("returns", torch.zeros(num_envs, reward_dim, dtype=dtype))
        self.register_buffer("largest", torch.zeros(reward_dim, dtype=dtype))

    @torch.no_grad()
    def update(self, reward: Tensor, done: Tensor, valid: Tensor | None = None) -> None:
        """Update the statistics with the rewards of new frames.

        Args:
            reward: the rewards ``[T, M]``, or ``[N, T, M]`` of N environments stepped together.
            done: whether the episode ended with the frame, ``[T, 1]`` or ``[N, T, 1]``.
            valid: the valid frames, bool ``[T]`` or ``[N, T]``. Default: all.
        """
        if reward.ndim == 2:
            reward, done = reward.unsqueeze(0), done.unsqueeze(0)
        for t, reward_t in enumerate(reward.to(self.largest).unbind(1)):
            rows = slice(None) if valid is None else valid.reshape(reward.shape[:2])[:, t]
            returns = torch.add(reward_t[rows], self.returns[rows], alpha=self.gamma)
            self.statistics.update(returns)
            if len(returns):
                torch.maximum(self.largest, returns.abs().amax(0), out=self.largest)
            self.returns[rows] = returns.masked_fill(done[rows, t], 0.0)
        if self.statistics.group is not None:
            distributed.all_reduce(
                self.largest, distributed.ReduceOp.MAX, group=self.statistics.group
            )

    def forward(self, reward: Tensor, steps: Tensor | None = None) -> Tensor:
        r"""Return the normalized reward, in the dtype of ``reward``.

        Args:
            reward: the rewards ``[*, M]``, or sums of rewards discounted by ``gamma``.
            steps: the number m of rewards in each sum, ``[*, 1]``. The bound of the sum is
                :math:`c (1 + \gamma + \dots + \gamma^{m - 1})`. Default: 1.
        """
        scale = (self.statistics.variance + _EPS).rsqrt()
        if self.bounded:
            scale = torch.minimum(scale, LARGEST_VALUE / self.largest)
        bound: Any = self.clip
        if bound is not None and steps is not None:
            gamma = self.gamma
            bound = bound * (steps if gamma == 1 else (1 - gamma**steps) / (1 - gamma))
        return _clip(reward * scale, bound).to(reward.dtype)


def _clip(values: Tensor, bound: float | None) -> Tensor:
    return values if bound is None else values.clamp(-bound, bound)


class NormalizedPolicy(TensorDictModuleBase):
    """A policy that acts on normalized observations. It does not change the observations it reads.

    Args:
        policy: a policy that acts on normalized observations.
        normalizer: the normalizer; shared, not copied, so that it follows training.

    >>> from tensordict import TensorDict
    >>> from rlkit_sac.modules.actors import tanh_gaussian_actor
    >>> policy = NormalizedPolicy(tanh_gaussian_actor(3, [-1.0], [1.0]), ObservationNormalizer(3))
    >>> policy(TensorDict(observation=torch.zeros(5, 3), batch_size=[5]))["action"].shape
    torch.Size([5, 1])
    """

    def __init__(self, policy: TensorDictModuleBase, normalizer: ObservationNormalizer) -> None:
        super().__init__()
        self.policy, self.normalizer = policy, normalizer
        self.in_keys, self.out_keys = list(policy.in_keys), list(policy.out_keys)

    blueprint = blueprint_property("policy", "normalizer")

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the policy's outputs into ``tensordict`` and return it."""
        return tensordict.update(self.policy(self._normalize(tensordict)).select(*self.out_keys))

    def get_dist(self, tensordict: TensorDictBase) -> Distribution:
        """Return the distribution of the action, if the policy is a TorchRL actor."""
        return self.policy.get_dist(self._normalize(tensordict))

    def _normalize(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self.normalizer.normalize_states(tensordict.select(*self.in_keys, strict=False))
