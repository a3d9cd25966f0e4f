"""The priors of a policy's factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensordict import NestedKey
from torch import Tensor, nn

from rlkit_sac.modules.priors.frozen import FrozenPrior
from rlkit_sac.objectives.sac.factors import factor_key
from rlkit_sac.objectives.sac.options import of_each


class Priors(nn.Module):
    """The priors of a policy's factors, copied and not trained.

    Args:
        given: one prior for all factors, ``None``, or a sequence with a prior or ``None`` for each.
        factors: names of the policy's factors.
        like: a tensor with the dtype and the device for the copies.

    Raises:
        ConfigError: for a module that is not a prior.
    """

    def __init__(self, given: Any, factors: Sequence[str], like: Tensor) -> None:
        super().__init__()
        # One prior over all factors is copied once.
        shared = not isinstance(given, tuple | list)
        self._names: dict[str, str] = {}
        for factor, network in of_each("prior_network", given, factors).items():
            if network is None:
                continue
            name = "prior" if shared else factor_key("prior", factor)
            if name not in self._modules:
                frozen = FrozenPrior(network, part="" if shared else factor)
                self.add_module(name, frozen.to(dtype=like.dtype, device=like.device))
            self._names[factor] = name

    def get(self, factor: str) -> FrozenPrior | None:
        """The prior of a factor, if it has one."""
        name = self._names.get(factor)
        return None if name is None else self.get_submodule(name)  # type: ignore[return-value]

    @property
    def in_keys(self) -> list[NestedKey]:
        """Entries that the priors read at a state."""
        read = (key for module in self.children() for key in module.in_keys)  # type: ignore[union-attr]
        return list(dict.fromkeys(read))
