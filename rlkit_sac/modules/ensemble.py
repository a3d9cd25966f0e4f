"""Ensembles of networks of one structure: construction, and evaluation with batched products."""

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
    flatten_sequences,
    perceptron_layers,
    refuse_batch_norm,
    submodule_name,
)


def make_ensemble(network: nn.Module | Sequence[nn.Module], count: int) -> list[nn.Module]:
    """Return the members of a critic ensemble, each with its own parameters and initialization.

    A single module is the first member. The other members are copies of it whose layers are
    reinitialized by their ``reset_parameters``. The modules of a list are used as they are.

    Args:
        network: one critic, or a list with one critic for each member.
        count: the number of members to make from a single critic; ignored for a list.

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
        network: one of the networks, without parameters.
        params: the stacked parameters, ``[R]``. :meth:`params_at` also works with the parameters of
            a single network, which are not stacked.
        randomness: the option of ``torch.vmap``.
        one_by_one: whether to run one network after another, in place of ``torch.vmap``.
        dtype: the dtype in which losses compute, also under autocast.
        indices: the indices of the networks in a larger ensemble; ``None`` for all.
    """

    network: nn.Module
    params: TensorDictBase
    randomness: str = "error"
    one_by_one: bool = False
    dtype: torch.dtype | None = None
    indices: Tensor | None = None

    def params_at(self, path: str) -> TensorDictBase:
        """Return the parameters of the part at a path in the network; all of them at ``""``."""
        return self.params.get(tuple(path.split("."))) if path else self.params

    def run(
        self,
        part: Callable[[TensorDictBase], TensorDictBase],
        inputs: TensorDictBase,
        *,
        shared: bool = False,
    ) -> TensorDictBase:
        """Return the outputs ``[R, *]`` of a part of each network.

        Args:
            part: a part of the network, or a function that calls parts.
            inputs: the inputs of each network, ``[R, *]``.
            shared: whether inputs are ``[*]``, the same for all.
        """

        def run(states: TensorDictBase, params: TensorDictBase) -> TensorDictBase:
            with params.to_module(self.network, preserve_module_state=False):
                return part(states)

        vmap = _pseudo_vmap if self.one_by_one else torch.vmap
        run_all = vmap(run, (None if shared else 0, 0), randomness=self.randomness)
        return run_all(inputs.copy(), self.params)


class Perceptron(NamedTuple):
    """A perceptron in a network.

    Attributes:
        module: the perceptron.
        layers: the layers of the perceptron.
        shape: the shape of one state's outputs if they are not a vector; else empty.
        path: the name of the perceptron in the network.
    """

    module: TensorDictModule
    layers: Layers
    shape: tuple[int, ...]
    path: str


@dataclass(frozen=True, eq=False)
class EnsembleOutput:
    """An output entry of R networks, evaluated for all of them at once.

    Perceptrons and sequences of perceptrons are evaluated with batched matrix products, other
    networks with ``torch.vmap``. :meth:`from_part` chooses between the two once, so hooks that are
    registered later have no effect on perceptrons.

    Attributes:
        part: the part of the network that writes the entry, or the whole network.
        key: the key of the entry, unraveled.
        perceptrons: the perceptrons of the part up to the entry; ``None`` for other networks.
        masked_action: the key of a continuous action, and a mask. The part is then evaluated for
            each of K discrete actions, and evaluation k gives output k, see
            :class:`~rlkit_sac.modules.MaskedCritic`.
    """

    part: TensorDictModuleBase
    key: NestedKey
    perceptrons: list[Perceptron] | None
    masked_action: tuple[NestedKey, ParameterMask] | None = None

    @classmethod
    def from_part(
        cls,
        network: nn.Module,
        part: TensorDictModuleBase,
        key: NestedKey,
        masked_action: tuple[NestedKey, ParameterMask] | None = None,
    ) -> EnsembleOutput:
        """Find the perceptrons in a part of a network. The arguments are the attributes."""
        chain: list[Perceptron] = []
        for step in flatten_sequences(part, plain=True):
            layers = perceptron_layers(step)
            if layers is None:
                break
            path = submodule_name(step, network)
            chain.append(Perceptron(cast(TensorDictModule, step), *layers, path))
            if unravel_key(step.out_keys[0]) == key:
                if masked_action is None or _reads_masked_action(chain, masked_action[0]):
                    return cls(part, key, chain, masked_action)
                break
        return cls(part, key, None, masked_action)

    def evaluate(self, members: Members, inputs: TensorDictBase, *, shared: bool) -> Tensor:
        """Return the entry ``[R, *, …]`` of R networks.

        Args:
            members: the networks with their parameters.
            inputs: the inputs ``[*]``, or ``[R, *]``.
            shared: whether inputs are ``[*]``, the same for all.
        """
        if self.perceptrons is None or members.one_by_one:
            return self._evaluate_with_vmap(members, inputs, shared=shared)
        *others, last = self.perceptrons
        for module, layers, shape, path in others:
            weights = members.params_at(path).flatten_keys(".")
            entries = torch.cat([inputs.get(name) for name in module.in_keys], -1)
            out = evaluate_perceptrons(layers, weights, entries, shape, shared=shared)
            inputs = inputs.expand(len(out), *inputs.batch_size) if shared else inputs
            inputs, shared = inputs.copy().set(module.out_keys[0], out), False
        weights = members.params_at(last.path).flatten_keys(".")
        values = [inputs.get(name) for name in last.module.in_keys]
        if self.masked_action is None:
            entries = torch.cat(values, -1)
            return evaluate_perceptrons(last.layers, weights, entries, last.shape, shared=shared)
        states, action, mask = torch.cat(values[:-1], -1), values[-1], self.masked_action[1]
        return evaluate_masked_perceptrons(last, weights, states, action, mask, shared=shared)

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
    """Return the outputs of R perceptrons.

    Between layers features come before the batch, ``[R, features, B]``. So every product of the
    forward and the backward pass reads and writes whole rows.

    Args:
        layers: the layers from :func:`~rlkit_sac.modules.structure.perceptron_layers`.
        weights: the parameters by name, each ``[R, …]``.
        inputs: the inputs ``[*, features]``, or ``[R, *, features]``.
        shape: the shape of one state's outputs if they are not a vector.
        shared: whether all perceptrons have the same inputs.

    Returns:
        The outputs ``[R, *, …]``.
    """
    batch = inputs.shape[:-1] if shared else inputs.shape[1:-1]
    out = _run_layers(layers, weights, _as_columns(inputs, shared)).mT
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
    """Return output k of R perceptrons for each of K masked actions.

    The first layer is linear in the action, so its product with the other inputs is computed once.
    The last layer computes only output k of action k.

    Args:
        perceptron: a perceptron from :meth:`EnsembleOutput.from_part` that reads a masked action.
        weights: the parameters by name, each ``[R, …]``.
        inputs: all inputs except the action, ``[*, features]``, or ``[R, *, features]``.
        action: the action ``[*, D]``, or ``[R, *, D]``; the layers read it last.
        mask: the mask ``[K, D]``.
        shared: whether all perceptrons have the same inputs.

    Returns:
        The outputs ``[R, *, K, …]``.

    Raises:
        ConfigError: for a mask that does not fit the outputs or the action.
    """
    batch, count = inputs.shape[not shared : -1], len(mask.mask)
    (first, _), *between, (last, _) = perceptron.layers
    weight, features = weights[f"{first}.weight"], inputs.shape[-1]
    outputs = weights[f"{last}.weight"]
    shape = perceptron.shape or outputs.shape[1:2]
    check_mask(mask.mask, shape[0], action.shape[-1])
    state_part = _linear(
        weight[..., :features], weights.get(f"{first}.bias"), _as_columns(inputs, shared)
    )
    rows = _as_columns(action, shared).mT
    action_part = _masked_product(weight[..., features:], rows, mask.mask, mask.used)
    hidden = state_part.unsqueeze(-2) + action_part
    hidden = _run_layers(between, weights, hidden.flatten(-2)).unflatten(-1, (count, -1))
    # A compiler fuses this sum with the activation before it. A product of matrices would also
    # compute the outputs of the other actions.
    action_weights = outputs.unflatten(1, (count, -1)).permute(0, 3, 1, 2).unsqueeze(3)
    out = (hidden.unsqueeze(-1) * action_weights).sum(1)
    bias = weights.get(f"{last}.bias")
    if bias is not None:
        out = out + bias.unflatten(1, (count, -1)).unsqueeze(2)
    return out.transpose(1, 2).reshape(len(out), *batch, *shape)


def _reads_masked_action(chain: Sequence[Perceptron], key: NestedKey) -> bool:
    """Return whether only the last perceptron of a chain reads the action, as its last input.

    It must have several linear layers and end with one: :func:`evaluate_masked_perceptrons` needs
    this.
    """
    *others, last = chain
    linear = [isinstance(layer, nn.Linear) for _, layer in last.layers]
    *state_keys, last_key = map(unravel_key, last.module.in_keys)
    if any(key in map(unravel_key, other.module.in_keys) for other in others):
        return False
    return last_key == key and bool(state_keys) and linear[-1] and sum(linear) > 1


def _masked_product(weight: Tensor, action: Tensor, mask: Tensor, used: Tensor | None) -> Tensor:
    """Return weights ``[R, out, D]`` times K masked copies of actions, ``[R, out, K, B]``."""
    if used is None:
        rows = torch.where(mask.bool().unsqueeze(-2), action.unsqueeze(-3), 0.0).flatten(-3, -2)
        return _linear(weight, None, rows.mT).unflatten(-1, (len(mask), -1))
    # A compiler fuses these few products with the next operation, which a matrix product prevents.
    used_weight = weight[..., used]
    action = torch.where(mask.gather(-1, used).bool(), action[..., used], 0.0)
    terms = (
        used_weight[..., i].unsqueeze(-1) * action[..., i].mT.unsqueeze(-3)
        for i in range(used.shape[-1])
    )
    return sum(terms, start=next(terms))


def _as_columns(inputs: Tensor, shared: bool) -> Tensor:
    """Return the inputs as a matrix ``[features, B]``, or ``[R, features, B]``."""
    return inputs.reshape(*inputs.shape[: not shared], -1, inputs.shape[-1]).mT


def _run_layers(layers: Layers, weights: Mapping[str, Tensor], hidden: Tensor) -> Tensor:
    """Return outputs ``[R, …, B]`` of layers for inputs ``[R, …, B]``, or ``[…, B]`` for all."""
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
    """Return weights ``[R, out, in]`` times ``[R, in, B]``, or ``[in, B]`` shared by all."""
    if hidden.ndim == 2:
        product = (weight.flatten(0, 1) @ hidden).unflatten(0, weight.shape[:2])
        return product if bias is None else product + bias.unsqueeze(-1)
    if bias is None:
        return torch.bmm(weight, hidden)
    return torch.baddbmm(bias.unsqueeze(-1), weight, hidden)
