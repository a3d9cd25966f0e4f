"""The priors of a policy's factors, and their inputs at the next state."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import NestedKey, TensorDict, TensorDictBase
from tensordict.utils import unravel_key
from torch import Tensor, nn

from rlkit_sac.errors import BatchError
from rlkit_sac.modules.priors.frozen import FrozenPrior
from rlkit_sac.objectives.sac.factors import factor_key
from rlkit_sac.objectives.sac.options import SACOptions

#: Entries of a state that describe the previous step; at the next state, the step of the batch.
PREVIOUS_ACTION, IS_INIT = "prev_action", "is_init"


class Priors(nn.Module):
    """The priors of a policy's factors, copied and not trained.

    Args:
        options: of the loss. ``prior_network`` is one prior for all factors, ``None``, or a
            sequence with a prior or ``None`` for each.
        factors: names of the policy's factors.
        like: a tensor with the dtype and the device for the copies.

    Raises:
        ConfigError: for a module that is not a prior.
    """

    def __init__(self, options: SACOptions, factors: Sequence[str], like: Tensor) -> None:
        super().__init__()
        # One prior over all factors is copied once.
        shared = not isinstance(options.prior_network, tuple | list)
        self._names: dict[str, str] = {}
        for factor, network in options.of_each("prior_network", factors).items():
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


def is_previous_step_key(key: NestedKey) -> bool:
    """Whether an entry of a state describes the previous step.

    >>> is_previous_step_key(("prev_action", "discrete")), is_previous_step_key("observation")
    (True, False)
    """
    return (key if isinstance(key, str) else key[0]) in (PREVIOUS_ACTION, IS_INIT)


def one_step_later(
    key: NestedKey, batch: TensorDictBase, action_keys: list[NestedKey]
) -> Tensor | TensorDictBase:
    """The value at the next state of an entry that describes the previous step.

    Args:
        key: ``is_init``, false there; ``prev_action``, the action of the batch; or
            ``("prev_action", part)``, that part of it.
        batch: of transitions.
        action_keys: of the parts of its action.

    Raises:
        BatchError: for a part that the action does not have.
    """
    if key == IS_INIT:
        return torch.zeros_like(batch.get(key))
    if not isinstance(key, tuple) and len(action_keys) == 1:
        return batch.get(action_keys[0])
    parts = {unravel_key(each)[-1]: batch.get(each) for each in action_keys}
    if not isinstance(key, tuple):
        return TensorDict(parts, batch_size=batch.batch_size)
    if key[-1] not in parts:
        raise BatchError(
            f"the prior reads {key!r}, but the parts of the action are {', '.join(parts)}: call "
            "them alike in the action spec of the prior"
        )
    return parts[key[-1]]
