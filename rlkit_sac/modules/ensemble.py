"""Ensembles of networks of one structure: construction, and evaluation in batched products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

import torch
from tensordict import NestedKey, TensorDictBase, unravel_key
from tensordict.nn import TensorDictModule, TensorDictModuleBase
from torch import Tensor, nn
from torch.nn import functional as F
from torchrl.objectives.utils import _pseudo_vmap

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.masked_critic import ParameterMask, check_mask, write_masked_values
from rlkit_sac.modules.structure import (
    Layers,
    check_same_structure,
    find_path,
    flat_parts,
    perceptron_layers,
    refuse_batch_norm,
)


def make_ensemble(network: nn.Module | Sequence[nn.Module], count: int) -> list[nn.Module]:
    """The members of a critic ensemble, each with its own parameters and initialization.

    A single module is the first member; the others are copies of it whose layers are
    reinitialized by their ``reset_parameters``. The modules of a list are used as given.

    Args:
        network: one critic, or a list with one critic for each member.
        count: number of members to make of a single critic; ignored for a list.

    Raises:
        ConfigError: if the members are not independent networks of the same structure.

    >>> first, second = make_ensemble(nn.Linear(2, 1), 2)
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
        params: stacked, ``[R]``; those of a single network for :meth:`params_at` alone.
        randomness: the option of ``torch.vmap``.
        one_by_one: whether to run one network after another, in place of ``torch.vmap``.
        dtype: what losses compute in, also under autocast.
        indices: which networks of a larger ensemble they are; ``None`` for all.
    """

    network: nn.Module
    params: TensorDictBase
    randomness: str = "error"
    one_by_one: bool = False
    dtype: torch.dtype | None = None
    indices: Tensor | None = None

    def params_at(self, path: str) -> TensorDictBase:
        """The parameters of the part at a path of the network; of all of it at ``""``."""
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


class Perceptron(NamedTuple):
    """A perceptron in a network.

    Attributes:
        module: the perceptron.
        layers: its layers.
        shape: of the outputs of a state, where they are not a vector; else empty.
        path: where in the network it is.
    """

    module: TensorDictModule
    layers: Layers
    shape: tuple[int, ...]
    path: str


@dataclass(frozen=True, eq=False)
class EnsembleOutput:
    """An entry that a part of each of R networks writes, evaluated for all of them at once.

    Perceptrons, and sequences of them, are evaluated with batched matrix products, others with
    ``torch.vmap``. Which it is, is found once, by :meth:`find`: hooks that are registered later
    have no effect on perceptrons.

    Attributes:
        part: a part of the network, or the whole.
        key: the entry, unravel_keys.
        perceptrons: what the part consists of up to the entry; ``None`` for other networks.
        masked_action: the key of a continuous action and a mask: the part is evaluated for each of
            K discrete actions, and of each evaluation the output of its action is kept, see
            :class:`~rlkit_sac.modules.MaskedCritic`.
    """

    part: TensorDictModuleBase
    key: NestedKey
    perceptrons: list[Perceptron] | None
    masked_action: tuple[NestedKey, ParameterMask] | None = None

    @classmethod
    def find(
        cls,
        network: nn.Module,
        part: TensorDictModuleBase,
        key: NestedKey,
        masked_action: tuple[NestedKey, ParameterMask] | None = None,
    ) -> EnsembleOutput:
        """Find out what a part of a network consists of; arguments are the attributes."""
        chain: list[Perceptron] = []
        for each in flat_parts(part, plain=True):
            parts = perceptron_layers(each)
            if parts is None:
                break
            chain.append(Perceptron(cast(TensorDictModule, each), *parts, find_path(each, network)))
            if unravel_key(each.out_keys[0]) == key:
                if masked_action is None or _reads_masked_action(chain, masked_action[0]):
                    return cls(part, key, chain, masked_action)
                break
        return cls(part, key, None, masked_action)

    def evaluate(self, members: Members, inputs: TensorDictBase, *, shared: bool) -> Tensor:
        """The entry ``[R, *, …]`` of R networks.

        Args:
            members: the networks with their parameters.
            inputs: ``[*]``, or ``[R, *]``.
            shared: whether inputs are ``[*]``, the same for all.
        """
        if self.perceptrons is None or members.one_by_one:
            return self._evaluate_with_vmap(members, inputs, shared=shared)
        *before, last = self.perceptrons
        for module, layers, shape, path in before:
            weights = members.params_at(path).flatten_keys(".")
            entries = torch.cat([inputs.get(name) for name in module.in_keys], -1)
            out = evaluate_perceptrons(layers, weights, entries, shape, shared=shared)
            inputs = inputs.expand(len(out), *inputs.batch_size) if shared else inputs
            inputs, shared = inputs.copy().set(module.out_keys[0], out), False
        weights = members.params_at(last.path).flatten_keys(".")
        read = [inputs.get(name) for name in last.module.in_keys]
        if self.masked_action is None:
            read_at_once = torch.cat(read, -1)
            return evaluate_perceptrons(
                last.layers, weights, read_at_once, last.shape, shared=shared
            )
        others, action, mask = torch.cat(read[:-1], -1), read[-1], self.masked_action[1]
        return evaluate_masked_perceptrons(last, weights, others, action, mask, shared=shared)

    def _evaluate_with_vmap(
        self, members: Members, inputs: TensorDictBase, *, shared: bool
    ) -> Tensor:
        run: Callable[[TensorDictBase], TensorDictBase] = self.part
        if self.masked_action is not None:
            action_key, mask = self.masked_action
            keys = {"action_key": action_key, "action_value_key": self.key}
            run = partial(write_masked_values, self.part, mask.mask, **keys)
        return members.run(run, inputs, shared=shared).get(self.key)


def evaluate_perceptrons(
    layers: Layers,
    weights: Mapping[str, Tensor],
    inputs: Tensor,
    shape: tuple[int, ...] = (),
    *,
    shared: bool = True,
) -> Tensor:
    """Outputs of R perceptrons.

    Features come before the batch between layers, ``[R, features, B]``: then every product of the
    forward and the backward pass reads and writes whole rows, the gradients of weights included.

    Args:
        layers: what :func:`~rlkit_sac.modules.structure.perceptron_layers` found.
        weights: parameters by name, each ``[R, …]``.
        inputs: ``[*, features]``, or ``[R, *, features]``.
        shape: of the outputs of a state, where they are not a vector.
        shared: whether all have the same inputs.

    Returns:
        ``[R, *, …]``.
    """
    batch = inputs.shape[:-1] if shared else inputs.shape[1:-1]
    out = _run_layers(layers, weights, _columns(inputs, shared)).mT
    return out.reshape(out.shape[0], *batch, *(shape or out.shape[-1:]))


def evaluate_masked_perceptrons(
    perceptron: Perceptron,
    weights: Mapping[str, Tensor],
    inputs: Tensor,
    action: Tensor,
    mask: ParameterMask,
    *,
    shared: bool,
) -> Tensor:
    """Outputs of R perceptrons for K masked actions, of which action k has output k.

    The first layer is linear in the action: its product with the other inputs is computed once.
    The last layer computes the outputs that are kept.

    Args:
        perceptron: one that :meth:`EnsembleOutput.find` lets read a masked action.
        weights: parameters by name, each ``[R, …]``.
        inputs: ``[*, features]``, or ``[R, *, features]``, all but the action.
        action: ``[*, D]``, or ``[R, *, D]``; the layers read it last.
        mask: ``[K, D]``.
        shared: whether all perceptrons have the same inputs.

    Returns:
        ``[R, *, K, …]``.

    Raises:
        ConfigError: for perceptrons without K outputs, or another action.
    """
    batch, count = inputs.shape[not shared : -1], len(mask.mask)
    (first, _), *between, (last, _) = perceptron.layers
    weight, features = weights[f"{first}.weight"], inputs.shape[-1]
    outputs = weights[f"{last}.weight"]
    shape = perceptron.shape or outputs.shape[1:2]
    check_mask(mask.mask, shape[0], action.shape[-1])
    of_state = _linear(
        weight[..., :features], weights.get(f"{first}.bias"), _columns(inputs, shared)
    )
    rows = _columns(action, shared).mT
    of_actions = _masked_product(weight[..., features:], rows, mask.mask, mask.used)
    hidden = of_state.unsqueeze(-2) + of_actions
    hidden = _run_layers(between, weights, hidden.flatten(-2)).unflatten(-1, (count, -1))
    # A compiler fuses this sum with the activation before it, and outputs that are not kept are
    # not computed, as they would be by a product of matrices.
    own = outputs.unflatten(1, (count, -1)).permute(0, 3, 1, 2).unsqueeze(3)
    out = (hidden.unsqueeze(-1) * own).sum(1)
    bias = weights.get(f"{last}.bias")
    if bias is not None:
        out = out + bias.unflatten(1, (count, -1)).unsqueeze(2)
    return out.transpose(1, 2).reshape(len(out), *batch, *shape)


def _reads_masked_action(chain: Sequence[Perceptron], key: NestedKey) -> bool:
    """Whether the last perceptron of a chain reads the action last, and none before reads it.

    It must have several linear layers, of which one comes last, as
    :func:`evaluate_masked_perceptrons` needs them.
    """
    *before, last = chain
    linear = [isinstance(layer, nn.Linear) for _, layer in last.layers]
    *others, read = map(unravel_key, last.module.in_keys)
    taken_before = any(key in map(unravel_key, each.module.in_keys) for each in before)
    return read == key and bool(others) and linear[-1] and sum(linear) > 1 and not taken_before


def _masked_product(weight: Tensor, action: Tensor, mask: Tensor, used: Tensor | None) -> Tensor:
    """Weights ``[R, out, D]`` times K masked actions of ``[R?, B, D]``: ``[R, out, K, B]``."""
    if used is None:
        rows = torch.where(mask.bool().unsqueeze(-2), action.unsqueeze(-3), 0.0).flatten(-3, -2)
        return _linear(weight, None, rows.mT).unflatten(-1, (len(mask), -1))
    # A few products that a compiler fuses with what follows are less than one of matrices.
    own = weight[..., used]
    action = torch.where(mask.gather(-1, used).bool(), action[..., used], 0.0)
    terms = (
        own[..., place].unsqueeze(-1) * action[..., place].mT.unsqueeze(-3)
        for place in range(used.shape[-1])
    )
    return sum(terms, start=next(terms))


def _columns(inputs: Tensor, shared: bool) -> Tensor:
    """Inputs as a matrix ``[features, B]``, or ``[R, features, B]``."""
    return inputs.reshape(*inputs.shape[: not shared], -1, inputs.shape[-1]).mT


def _run_layers(layers: Layers, weights: Mapping[str, Tensor], hidden: Tensor) -> Tensor:
    """Outputs of layers ``[R, …, B]`` for inputs ``[R, …, B]``, or ``[…, B]`` shared by all."""
    for name, layer in layers:
        if isinstance(layer, nn.Linear):
            hidden = _linear(weights[f"{name}.weight"], weights.get(f"{name}.bias"), hidden)
        elif isinstance(layer, nn.LayerNorm):
            hidden = F.layer_norm(hidden.mT, layer.normalized_shape, eps=layer.eps).mT
            if layer.elementwise_affine:
                hidden = hidden * weights[f"{name}.weight"].unsqueeze(-1)
                if layer.bias is not None:
                    hidden = hidden + weights[f"{name}.bias"].unsqueeze(-1)
        else:
            hidden = layer(hidden)
    return hidden


def _linear(weight: Tensor, bias: Tensor | None, hidden: Tensor) -> Tensor:
    """Weights ``[R, out, in]`` times ``[R, in, B]``, or ``[in, B]`` shared by all."""
    if hidden.ndim == 2:
        product = (weight.flatten(0, 1) @ hidden).unflatten(0, weight.shape[:2])
        return product if bias is None else product + bias.unsqueeze(-1)
    if bias is None:
        return torch.bmm(weight, hidden)
    return torch.baddbmm(bias.unsqueeze(-1), weight, hidden)
