"""Priors with independent distributions of the parts of an action."""

from __future__ import annotations

from abc import abstractmethod

import torch
from tensordict import NestedKey, TensorDictBase
from torch import Tensor, nn
from torch.distributions import Distribution
from torchrl.data import Bounded, Categorical, Composite, MultiCategorical, TensorSpec

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.box import check_box
from rlkit_sac.modules.priors.distributions import FactoredDistribution


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

    alike: Tensor

    def __init__(self, num_actions: int) -> None:
        super().__init__()
        self.num_actions = num_actions
        self.register_buffer("alike", torch.zeros(num_actions), persistent=False)


class PartwisePrior(nn.Module):
    """A prior with a distribution for each part of an action, independent of the others.

    Args:
        action_spec: of one action: a box ``[D]``, a categorical one, or both in a composite spec
            for hybrid actions.

    Raises:
        ConfigError: for another spec or bounds that are not finite.
    """

    in_keys: list[NestedKey]

    def __init__(self, action_spec: TensorSpec) -> None:
        super().__init__()
        specs = action_parts(action_spec)
        parts: dict[str, nn.Module] = {
            name: Box(spec) if isinstance(spec, Bounded) else Index(spec.space.n)
            for name, spec in specs.items()
        }
        self._names = list(parts)
        self._parts = nn.ModuleList(parts.values())

    def get_dist(self, tensordict: TensorDictBase) -> Distribution:
        """The distribution over one action, or over its parts.

        Args:
            tensordict: states ``[*]`` with the entries of ``in_keys``.
        """
        dists: dict[NestedKey, Distribution] = {}
        for name, part in zip(self._names, self._parts, strict=True):
            if isinstance(part, Index):
                dists[name] = self._index(name, part, tensordict)
            elif isinstance(part, Box):
                dists[name] = self._box(name, part, tensordict)
        return dists[""] if "" in dists else FactoredDistribution(dists)

    @abstractmethod
    def _box(self, name: str, box: Box, states: TensorDictBase) -> Distribution:
        """The distribution over a continuous part."""

    @abstractmethod
    def _index(self, name: str, index: Index, states: TensorDictBase) -> Distribution:
        """The distribution over a discrete part."""

    def num_actions(self) -> int | None:
        """Number K of discrete actions; ``None`` where there are none."""
        return next((part.num_actions for part in self._parts if isinstance(part, Index)), None)


def action_parts(spec: TensorSpec) -> dict[str, TensorSpec]:
    """The spec of each part of one action, by its name in the action.

    Args:
        spec: of one action, or a composite spec with the action under ``action``. An action without
            parts has the name ``""``.

    Raises:
        ConfigError: for anything but a box of one dimension and a categorical index.

    >>> list(action_parts(Composite(continuous=Bounded(-1.0, 1.0, (2,)), discrete=Categorical(3))))
    ['continuous', 'discrete']
    """
    if isinstance(spec, Composite) and list(spec.keys()) == ["action"]:
        spec = spec["action"]
    parts = dict(spec.items()) if isinstance(spec, Composite) else {"": spec}
    for name, part in parts.items():
        _check_part(name, part)
    return parts


def _check_part(name: str, part: TensorSpec) -> None:
    where = f" of {name!r}" if name else ""
    if isinstance(part, Bounded):
        if part.ndim != 1:
            raise ConfigError(
                f"the action spec{where} has the shape {list(part.shape)}: pass that of one action "
                "[D] (for a batched environment env.full_action_spec_unbatched)"
            )
        check_box(part.space.low, part.space.high)
    elif not isinstance(part, Categorical) or isinstance(part, MultiCategorical):
        raise ConfigError(
            f"the action spec{where} is {type(part).__name__}: a prior needs a bounded box, or "
            "indices (GymEnv(..., categorical_action_encoding=True))"
        )
