"""The prior that repeats the previous action."""

from __future__ import annotations

import math

import torch
from tensordict import NestedKey, TensorDictBase
from torch import Tensor
from torch.distributions import Categorical, Distribution
from torchrl.data import TensorSpec

from rlkit_sac.errors import BatchError
from rlkit_sac.modules.priors.parts import Box, BoxDistribution, Index, PartwisePrior


class SameActionMixture(BoxDistribution):
    r"""A mixture of a wide normal distribution and a narrow one around the previous action.

    Both are truncated to ``[low, high]``. In each dimension, with
    :math:`R = \text{high} - \text{low}`,

    .. math:: \pi(a) = (1-p)\,\mathcal N_{[l,h]}\!\left(\tfrac{l+h}{2}, R\right)
        + p\,\mathcal N_{[l,h]}(a_{before}, \text{noise}\cdot R)

    Args:
        low: lower bounds ``[D]``.
        high: upper bounds ``[D]``.
        previous_action: the previous action ``[*, D]``.
        prob: the probability p in [0, 1].
        noise: standard deviation of the narrow component in widths of the box.
        is_init: the first steps of episodes, bool ``[*, 1]``. They have no previous action, so p is
            0 there.

    >>> one = torch.ones(1)
    >>> before, is_init = torch.zeros(2, 1), torch.tensor([[False], [True]])
    >>> SameActionMixture(-one, one, before, 0.9, 0.1, is_init).log_prob(torch.zeros(2, 1)).exp()
    tensor([1.8473, 0.5209])
    """

    def __init__(
        self,
        low: Tensor,
        high: Tensor,
        previous_action: Tensor,
        prob: float,
        noise: float,
        is_init: Tensor,
    ) -> None:
        super().__init__(low, high, previous_action.shape[:-1])
        self.previous_action, self.is_init = previous_action, is_init
        self.prob, self.noise = prob, noise

    def log_probs(self, value: Tensor) -> Tensor:
        """Return the log-density of each dimension, ``[*, D]``."""
        low, high = self.low.to(value), self.high.to(value)
        inside = value.clamp(low, high)
        wide = _log_truncated_normal(inside, 0.5 * (low + high), high - low, low, high)
        mean = self.previous_action.to(value).clamp(low, high)
        narrow = _log_truncated_normal(inside, mean, self.noise * (high - low), low, high)
        mixed = torch.logaddexp(_safe_log(1 - self.prob) + wide, _safe_log(self.prob) + narrow)
        return torch.where(self.is_init, wide, mixed)


class SameActionPrior(PartwisePrior):
    r"""A prior for smooth behavior, which repeats the previous action with a probability p.

    In each continuous dimension, with :math:`R = \text{high} - \text{low}` and both normal
    distributions truncated to ``[low, high]``,

    .. math:: \pi^0(a) = (1-p)\,\mathcal N\!\left(\tfrac{\text{low}+\text{high}}{2}, R\right)
        + p\,\mathcal N(a_{t-1}, \text{noise}\cdot R)

    The previous discrete action has the probability p, any other :math:`(1-p)/(K-1)`. The first
    step of an episode has no previous action: there only the first component counts, and discrete
    actions are uniform.

    The prior reads ``prev_action``, of the shape of ``action``, and ``is_init`` ``[*, 1]``, as
    :func:`~rlkit_sac.envs.make_env` writes them.

    Args:
        action_spec: the spec of one action: a box ``[D]``, a categorical spec, or both in a
            composite spec for hybrid actions.
        same_action_prob: the probability p in [0, 1]. Default: 0.9.
        same_action_noise: standard deviation of the narrow component, in widths of the box.
            Default: 0.1.

    Raises:
        ConfigError: for another spec, or bounds that are not finite.
        BatchError: in ``get_dist``, for previous actions of another shape.

    Source: ``SameActionPriorActor`` of ALF.

    >>> from tensordict import TensorDict
    >>> from torchrl.data import Bounded
    >>> prior = SameActionPrior(Bounded(-1.0, 1.0, (1,)))
    >>> states = TensorDict(
    ...     prev_action=torch.tensor([[0.5], [0.0]]),
    ...     is_init=torch.tensor([[False], [True]]),
    ...     batch_size=[2],
    ... )
    >>> prior.get_dist(states).log_prob(torch.tensor([[0.5], [0.5]])).exp()
    tensor([1.8569, 0.5049])
    """

    def __init__(
        self,
        action_spec: TensorSpec,
        same_action_prob: float = 0.9,
        same_action_noise: float = 0.1,
    ) -> None:
        super().__init__(action_spec)
        self.same_action_prob, self.same_action_noise = same_action_prob, same_action_noise
        # The largest divergence of a discrete policy from this prior, in nats.
        others = max((self.num_actions() or 2) - 1, 1)
        self.largest_divergence = -_safe_log(min(same_action_prob, (1 - same_action_prob) / others))
        action_keys: list[NestedKey] = [_previous_action_key(name) for name in self._names]
        self.in_keys: list[NestedKey] = [*action_keys, "is_init"]

    def _box_distribution(self, name: str, box: Box, states: TensorDictBase) -> Distribution:
        shape = (*states.batch_size, *box.low.shape)
        return SameActionMixture(
            box.low,
            box.high,
            _read_previous_action(name, states, shape),
            self.same_action_prob,
            self.same_action_noise,
            states.get("is_init"),
        )

    def _index_distribution(self, name: str, index: Index, states: TensorDictBase) -> Distribution:
        previous = _read_previous_action(name, states, states.batch_size).unsqueeze(-1)
        logits = index.uniform_logits.expand(*states.batch_size, -1)
        if index.num_actions > 1:
            other = (1 - self.same_action_prob) / (index.num_actions - 1)
            actions = torch.arange(index.num_actions, device=previous.device)
            preferred = torch.where(
                previous == actions,
                index.uniform_logits + _safe_log(self.same_action_prob),
                index.uniform_logits + _safe_log(other),
            )
            logits = torch.where(states.get("is_init"), logits, preferred)
        return Categorical(logits=logits, validate_args=False)


def _previous_action_key(name: str) -> NestedKey:
    return ("prev_action", name) if name else "prev_action"


def _read_previous_action(name: str, states: TensorDictBase, shape: tuple[int, ...]) -> Tensor:
    key = _previous_action_key(name)
    action = states.get(key)
    if action.shape != shape:
        raise BatchError(
            f"{key!r} has the shape {list(action.shape)}, but the prior's action spec asks for "
            f"{list(shape)}"
        )
    return action


def _log_truncated_normal(
    value: Tensor, mean: Tensor, scale: Tensor, low: Tensor, high: Tensor
) -> Tensor:
    """Return the log-density of a truncated normal distribution with a mean inside its bounds."""
    # The sum of the two sides of the mean loses no digits, since both are positive.
    unit = math.sqrt(2) * scale
    mass = 0.5 * (((high - mean) / unit).erf() + ((mean - low) / unit).erf())
    normal = -0.5 * ((value - mean) / scale).square() - scale.log() - 0.5 * math.log(2 * math.pi)
    return normal - mass.log()


def _safe_log(probability: float) -> float:
    """Return the logarithm of a probability, minus infinity for 0."""
    return math.log(probability) if probability > 0 else -math.inf
