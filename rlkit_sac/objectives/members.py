"""Networks of one structure with stacked parameters, evaluated together as losses need them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn
from torchrl.objectives.utils import _pseudo_vmap

from rlkit_sac.modules.ensemble import (
    evaluate_masked_perceptrons,
    evaluate_perceptrons,
    perceptron_chain,
    takes_masked_action,
)
from rlkit_sac.modules.masked_critic import check_mask, write_masked_values


class Members(NamedTuple):
    """R networks of one structure.

    Attributes:
        network: one of them, without parameters.
        params: stacked, ``[R]``; those of a single network for :meth:`params_of` alone.
        randomness: of ``torch.vmap``.
        one_by_one: whether to run one network after another, in place of ``torch.vmap``.
        dtype: that losses compute in, also under autocast.
    """

    network: nn.Module
    params: TensorDictBase
    randomness: str = "error"
    one_by_one: bool = False
    dtype: torch.dtype | None = None

    def params_of(self, part: nn.Module) -> TensorDictBase:
        """The parameters of a part of the network, or of all of it."""
        path = next(name for name, each in self.network.named_modules() if each is part)
        return self.params.get(tuple(path.split("."))) if path else self.params

    def run(
        self,
        part: Callable[[TensorDictBase], TensorDictBase],
        inputs: TensorDictBase,
        *,
        shared: bool = False,
    ) -> TensorDictBase:
        """Outputs ``[R, *]`` of a part of each network.

        Args:
            part: of the network, or a function that calls parts.
            inputs: ``[R, *]``, those of each network.
            shared: whether inputs are ``[*]``, the same for all.
        """

        def run(states: TensorDictBase, member: TensorDictBase) -> TensorDictBase:
            with member.to_module(self.network, preserve_module_state=False):
                return part(states)

        together = _pseudo_vmap if self.one_by_one else torch.vmap
        run_each = together(run, (None if shared else 0, 0), randomness=self.randomness)
        return run_each(inputs.copy(), self.params)


class MaskedAction(NamedTuple):
    """A continuous action of which each discrete action reads some dimensions.

    Attributes:
        key: of the continuous action.
        mask: ``[K, D]``.
        used: ``[K, n]``, see :func:`~rlkit_sac.modules.masked_critic.used_dimensions`.
    """

    key: NestedKey
    mask: Tensor
    used: Tensor | None


def evaluate_members(
    members: Members,
    part: TensorDictModuleBase,
    inputs: TensorDictBase,
    key: NestedKey,
    *,
    shared: bool,
    masked: MaskedAction | None = None,
) -> Tensor:
    """An entry ``[R, *, …]`` that a part of each network writes.

    Perceptrons, and sequences of them, are evaluated with batched matrix products, others with
    ``torch.vmap``.

    Args:
        members: the networks.
        part: of the network, or the whole.
        inputs: ``[*]``, or ``[R, *]``.
        key: of the entry, unraveled.
        shared: whether inputs are ``[*]``, the same for all.
        masked: evaluate the part for each of K discrete actions, and keep of each evaluation the
            output of its action, see :class:`~rlkit_sac.modules.MaskedCritic`.
    """
    chain = None if members.one_by_one else perceptron_chain(part, key)
    if chain is None or not (masked is None or takes_masked_action(chain, masked.key)):
        run: Callable[[TensorDictBase], TensorDictBase] = part
        if masked is not None:
            keys = {"action_key": masked.key, "action_value_key": key}
            run = partial(write_masked_values, part, masked.mask, **keys)
        return members.run(run, inputs, shared=shared).get(key)
    *before, (head, head_layers) = chain
    for each, layers in before:
        weights = members.params_of(each).flatten_keys(".")
        read = torch.cat([inputs.get(name) for name in each.in_keys], -1)
        out = evaluate_perceptrons(layers, weights, read, shared=shared)
        inputs = inputs.expand(len(out), *inputs.batch_size) if shared else inputs
        inputs, shared = inputs.copy().set(each.out_keys[0], out), False
    weights = members.params_of(head).flatten_keys(".")
    entries = [inputs.get(name) for name in head.in_keys]
    if masked is None:
        return evaluate_perceptrons(head_layers, weights, torch.cat(entries, -1), shared=shared)
    *others, action = entries
    check_mask(masked.mask, action)
    read = torch.cat(others, -1)
    return evaluate_masked_perceptrons(
        head_layers, weights, read, action, masked.mask, masked.used, shared=shared
    )
