"""Priors with an independent distribution for each part of an action, and the uniform prior."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from tensordict import NestedKey, TensorDictBase
from torch import Tensor, nn
from torch.distributions import Categorical, Distribution
from torchrl.data import Bounded, Composite, MultiCategorical, TensorSpec
from torchrl.data import Categorical as CategoricalSpec

from rlkit_sac.errors import ConfigError, check_bounds


class FactoredDistribution(Distribution):
    """A distribution over an action of several parts, each given the parts before it.

    Args:
        dists: the distribution of each part, by the part's key or name, as in TorchRL's
            ``CompositeDistribution``.
    """

    arg_constraints = {}  # noqa: RUF012  (torch's own declaration)

    def __init__(self, dists: Mapping[NestedKey, Distribution]) -> None:
        self.dists = dict(dists)
        super().__init__(next(iter(self.dists.values())).batch_shape, validate_args=False)

    def log_prob(self, value: TensorDictBase) -> Tensor:
        """Return the log-density ``[*]`` of all parts together."""
        parts = [dist.log_prob(value.get(key)) for key, dist in self.dists.items()]
        return torch.stack(parts).sum(0)


class BoxDistribution(Distribution, ABC):
    """A distribution over a closed box with independent dimensions.

    An action that is outside the box by rounding counts as the nearest one inside.

    Args:
        low: lower bounds ``[D]``.
        high: upper bounds ``[D]``.
        batch_shape: the batch shape of the distribution.
    """

    arg_constraints = {}  # noqa: RUF012  (torch's own declaration)

    def __init__(self, low: Tensor, high: Tensor, batch_shape: torch.Size) -> None:
        self.low, self.high = low, high
        super().__init__(batch_shape, low.shape, validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density ``[*]`` of actions ``[*, D]``, in the units of the action."""
        return self.log_probs(value).sum(-1)

    @abstractmethod
    def log_probs(self, value: Tensor) -> Tensor:
        """Return the log-density of each dimension, ``[*, D]``."""


class Box(nn.Module):
    """The bounds ``[D]`` of a continuous part, as buffers."""

    low: Tensor
    high: Tensor

    def __init__(self, spec: Bounded) -> None:
        super().__init__()
        self.register_buffer("low", spec.space.low.clone(), persistent=False)
        self.register_buffer("high", spec.space.high.clone(), persistent=False)


class Index(nn.Module):
    """The uniform logits ``[K]`` of a discrete part, as a buffer."""

    uniform_logits: Tensor

    def __init__(self, spec: CategoricalSpec) -> None:
        super().__init__()
        self.num_actions = spec.space.n
        uniform_logits = torch.zeros(self.num_actions, device=spec.device)
        self.register_buffer("uniform_logits", uniform_logits, persistent=False)


class PartwisePrior(nn.Module):
    """A prior with a distribution for each part of an action, independent of the others.

    Args:
        action_spec: the spec of one action: a box ``[D]``, a categorical spec, or both in a
            composite spec for hybrid actions.

    Raises:
        ConfigError: for another spec or bounds that are not finite.
    """

    in_keys: list[NestedKey]

    def __init__(self, action_spec: TensorSpec) -> None:
        super().__init__()
        parts = action_parts(action_spec)
        self._names = list(parts)
        self._parts = nn.ModuleList(
            Box(spec) if isinstance(spec, Bounded) else Index(spec) for spec in parts.values()
        )

    def get_dist(self, tensordict: TensorDictBase) -> Distribution:
        """Return the distribution over one action, or over its parts.

        Args:
            tensordict: states ``[*]`` with the entries of ``in_keys``.
        """
        dists: dict[NestedKey, Distribution] = {}
        for name, part in zip(self._names, self._parts, strict=True):
            if isinstance(part, Index):
                dists[name] = self._index_distribution(name, part, tensordict)
            elif isinstance(part, Box):
                dists[name] = self._box_distribution(name, part, tensordict)
        return dists[""] if "" in dists else FactoredDistribution(dists)

    @abstractmethod
    def _box_distribution(self, name: str, box: Box, states: TensorDictBase) -> Distribution:
        """Return the distribution over a continuous part."""

    @abstractmethod
    def _index_distribution(self, name: str, index: Index, states: TensorDictBase) -> Distribution:
        """Return the distribution over a discrete part."""

    def num_actions(self) -> int | None:
        """Return the number K of discrete actions; ``None`` without discrete actions."""
        return next((part.num_actions for part in self._parts if isinstance(part, Index)), None)


def action_parts(spec: TensorSpec) -> dict[str, TensorSpec]:
    """Return the spec of each part of one action, by the part's name in the action.

    Args:
        spec: the spec of one action, or a composite spec with the action under ``action``. An
            action without parts has the name ``""``.

    Raises:
        ConfigError: for a spec other than a box or a categorical index.

    >>> box, index = Bounded(-1.0, 1.0, (2,)), CategoricalSpec(3)
    >>> list(action_parts(Composite(continuous=box, discrete=index)))
    ['continuous', 'discrete']
    """
    if isinstance(spec, Composite) and list(spec.keys()) == ["action"]:
        spec = spec["action"]
    parts = dict(spec.items()) if isinstance(spec, Composite) else {"": spec}
    for name, part in parts.items():
        where = f" of {name!r}" if name else ""
        if isinstance(part, Bounded):
            check_bounds(part.space.low, part.space.high)
        elif not isinstance(part, CategoricalSpec) or isinstance(part, MultiCategorical):
            raise ConfigError(
                f"the action spec{where} is {type(part).__name__}: a prior needs a bounded box, or "
                "indices (GymEnv(..., categorical_action_encoding=True))"
            )
    return parts


class BoxUniform(BoxDistribution):
    r"""The uniform distribution over a closed box.

    .. math:: \log\pi(a) = -\sum_d \log(\text{high}_d - \text{low}_d)

    >>> box = BoxUniform(torch.tensor([-1.0]), torch.tensor([1.0]), torch.Size([2]))
    >>> box.log_prob(torch.tensor([[0.3], [1.0]]))
    tensor([-0.6931, -0.6931])
    """

    def log_probs(self, value: Tensor) -> Tensor:
        """Return the log-density of each dimension, ``[*, D]``."""
        return -(self.high - self.low).log().to(value).expand(value.shape)


class UniformPrior(PartwisePrior):
    r"""A prior with the uniform distribution over actions.

    The log-density is :math:`-\sum_d\log(\text{high}_d-\text{low}_d)`, or :math:`-\log K`. The
    divergence from this prior is minus the entropy, up to this constant. The density is finite on
    the closed box, since a saturated tanh reaches the bounds exactly.

    Args:
        action_spec: the spec of one action: a box ``[D]``, a categorical spec, or both in a
            composite spec for hybrid actions.

    Raises:
        ConfigError: for another spec or bounds that are not finite.

    >>> from tensordict import TensorDict
    >>> prior = UniformPrior(Bounded(-2.0, 2.0, (1,)))
    >>> prior.get_dist(TensorDict(batch_size=[2])).log_prob(torch.tensor([[0.0], [2.0]]))
    tensor([-1.3863, -1.3863])
    """

    def __init__(self, action_spec: TensorSpec) -> None:
        super().__init__(action_spec)
        self.in_keys: list[NestedKey] = []
        # The largest divergence of a discrete policy from this prior, in nats.
        self.largest_divergence = math.log(self.num_actions() or 1)

    def _box_distribution(self, name: str, box: Box, states: TensorDictBase) -> Distribution:
        return BoxUniform(box.low, box.high, states.batch_size)

    def _index_distribution(self, name: str, index: Index, states: TensorDictBase) -> Distribution:
        logits = index.uniform_logits.expand(*states.batch_size, -1)
        return Categorical(logits=logits, validate_args=False)
