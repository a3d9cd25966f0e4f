"""The members of an ensemble of critics: made, registered on a loss, and evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from typing import NamedTuple

import torch
from tensordict import NestedKey, TensorDict, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn
from torchrl.objectives import LossModule
from torchrl.objectives.utils import _pseudo_vmap

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.ensemble import (
    check_same_structure,
    evaluate_masked_perceptrons,
    evaluate_perceptrons,
    perceptron_chain,
    takes_masked_action,
)
from rlkit_sac.modules.masked_critic import ParameterMask, write_masked_values
from rlkit_sac.objectives.checks import refuse_batch_norm


def critic_list(network: nn.Module | Sequence[nn.Module], count: int) -> list[nn.Module]:
    """The members of a critic ensemble, each with its own parameters and initialization.

    A single module is the first member; the others are copies of it whose layers are
    reinitialized by their ``reset_parameters``. The modules of a list are used as given.

    Args:
        network: one critic, or a list with one critic for each member.
        count: number of members to make of a single critic; ignored for a list.

    Raises:
        ConfigError: if the members are not independent networks of the same structure.

    >>> first, second = critic_list(nn.Linear(2, 1), 2)
    >>> bool((first.weight != second.weight).all())
    True
    """
    if isinstance(network, nn.Module) and not isinstance(network, nn.ModuleList):
        refuse_batch_norm(network, "qvalue_network")
        return [network, *(_fresh_copy(network) for _ in range(count - 1))]
    critics = list(network)
    seen: dict[int, int] = {}
    for index, critic in enumerate(critics):
        refuse_batch_norm(critic, f"qvalue_network[{index}]")
        check_same_structure(critics, index, "qvalue_network")
        for parameter in critic.parameters():
            if seen.setdefault(id(parameter), index) != index:
                raise ConfigError(
                    f"qvalue_network[{index}] shares parameters with "
                    f"qvalue_network[{seen[id(parameter)]}]: the minimum over critics needs "
                    "independent ones; build each, or pass a single module and num_qvalue_nets"
                )
    return critics


def register_critics(loss: LossModule, critics: list[nn.Module], *, with_targets: bool) -> None:
    """Register the stacked parameters of critics on a loss, as ``qvalue_network_params``.

    Args:
        loss: on which they are registered.
        critics: the members.
        with_targets: whether to register target parameters too.
    """
    alone = len(critics) == 1
    # TorchRL makes a list of one a view of the network's own parameters, which no optimizer of
    # this loss would see; given the network itself it makes parameters, but redraws them.
    loss.convert_to_functional(
        critics[0] if alone else critics,
        "qvalue_network",
        len(critics),
        create_target_params=with_targets,
    )
    if not alone:
        return
    initial = TensorDict.from_module(critics[0]).data.unsqueeze(0)
    loss.qvalue_network_params.data.copy_(initial)
    if with_targets:
        loss._modules["target_qvalue_network_params"].data.copy_(initial)
    for name, parameter in critics[0].named_parameters():
        key = tuple(name.split("."))
        loss.qvalue_network_params.get(key).requires_grad_(parameter.requires_grad)


def _fresh_copy(critic: nn.Module) -> nn.Module:
    copy = deepcopy(critic)
    for name, module in copy.named_modules():
        if next(module.parameters(recurse=False), None) is None:
            continue
        reset = getattr(module, "reset_parameters", None)
        if reset is None:
            raise ConfigError(
                f"{type(module).__name__} at {name or 'the root'!r} of qvalue_network has "
                "parameters but no reset_parameters(), so a copy cannot be initialized afresh: "
                "pass a list with one critic for each member instead"
            )
        reset()
    return copy


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


def evaluate_members(
    members: Members,
    part: TensorDictModuleBase,
    inputs: TensorDictBase,
    key: NestedKey,
    *,
    shared: bool,
    mask: tuple[NestedKey, ParameterMask] | None = None,
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
        mask: of a continuous action with this key: evaluate the part for each of K discrete
            actions, and keep of each evaluation the output of its action, see
            :class:`~rlkit_sac.modules.MaskedCritic`.
    """
    chain = None if members.one_by_one else perceptron_chain(part, key)
    if chain is None or not (mask is None or takes_masked_action(chain, mask[0])):
        run: Callable[[TensorDictBase], TensorDictBase] = part
        if mask is not None:
            keys = {"action_key": mask[0], "action_value_key": key}
            run = partial(write_masked_values, part, mask[1].mask, **keys)
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
    if mask is None:
        return evaluate_perceptrons(head_layers, weights, torch.cat(entries, -1), shared=shared)
    *others, action = entries
    read, masks = torch.cat(others, -1), mask[1]
    return evaluate_masked_perceptrons(
        head_layers, weights, read, action, masks.mask, masks.used, shared=shared
    )
