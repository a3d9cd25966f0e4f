"""Ensembles of perceptrons, evaluated with one batched matrix product for each layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any, cast

import torch
from tensordict import NestedKey, unravel_key
from tensordict.nn import TensorDictModule, TensorDictModuleBase
from torch import Tensor, nn
from torch.nn import functional as F
from torchrl.modules import MLP, ValueOperator

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.masked_critic import check_mask, flat_parts, has_hooks
from rlkit_sac.modules.temperature import Temperature

#: Elementwise layers.
_ELEMENTWISE: tuple[type[nn.Module], ...] = (
    *(nn.ReLU, nn.LeakyReLU, nn.ELU, nn.SiLU, nn.GELU, nn.Mish, nn.Softplus),
    *(nn.Tanh, nn.Sigmoid, nn.Identity, nn.Dropout),
)

Layers = list[tuple[str, nn.Module]]
Chain = list[tuple[TensorDictModule, Layers]]


def check_same_structure(members: Sequence[nn.Module], index: int, name: str) -> None:
    """Refuse a member whose code, which runs once for all of them, is not that of the first.

    Compares the shapes of tensors, the types of layers, and their attributes that are numbers,
    strings or functions.

    Args:
        members: networks.
        index: of the member.
        name: what an error calls the members.

    Raises:
        ConfigError: naming what differs.

    >>> check_same_structure([nn.Linear(2, 1), nn.Linear(3, 1)], 1, "members")
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: members[1] is built differently from members[0]: weight is ...
    """
    wanted, found = structure(members[0]), structure(members[index])
    for part in {**wanted, **found}:
        if wanted.get(part) != found.get(part):
            raise ConfigError(
                f"{name}[{index}] is built differently from {name}[0]: {part} is "
                f"{found.get(part)}, wanted {wanted.get(part)}; members are evaluated in one "
                "batched call, so they need the same layers"
            )


def structure(network: nn.Module) -> dict[str, str]:
    """The shapes of a network's tensors, the types of its layers and their attributes, as text.

    Of the attributes those that are numbers, texts, functions or classes, or sequences of such.

    >>> structure(nn.Linear(2, 1))["out_features of ''"]
    '1'
    """
    tensors = (*network.named_parameters(), *network.named_buffers())
    found = {name: f"of shape {tuple(value.shape)}" for name, value in tensors}
    for name, layer in network.named_modules():
        found[f"the layer {name!r}"] = type(layer).__name__
        for key, value in vars(layer).items():
            if isinstance(value, FunctionType | BuiltinFunctionType | type):
                found[f"{key} of {name!r}"] = value.__qualname__
            # The arguments of a distribution hold the bounds of actions.
            elif key == "distribution_kwargs" or (key != "training" and _is_plain(value)):
                found[f"{key} of {name!r}"] = str(value)
    return found


def changed_layer(saved: Mapping[str, str], network: nn.Module, names: Iterable[str] = "'") -> str:
    """The first layer of a network, or attribute of one, that is not as it was saved, in words.

    Args:
        saved: what :func:`structure` returned. What one of both alone has, such as attributes of
            another version, does not count.
        network: of the same weights.
        names: texts, one of which must be in what counts. Default: all but shapes counts.

    Returns:
        Text, empty if all is as it was.

    >>> changed_layer(structure(nn.ReLU()), nn.Tanh())
    "the layer '' was ReLU and is Tanh here"
    """
    now = structure(network)
    changed = (part for part in saved if now.get(part, saved[part]) != saved[part])
    part = next((part for part in changed if any(name in part for name in names)), "")
    return part and f"{part} was {saved[part]} and is {now[part]} here"


def perceptron_layers(network: nn.Module) -> Layers | None:
    """The layers of a perceptron with the names of their parameters' owners, in order.

    Args:
        network: a module, or a ``TensorDictModule`` around one.

    Returns:
        ``None`` for what is not known to be a perceptron.

    >>> perceptron_layers(nn.Sequential(nn.Linear(3, 2), nn.ReLU()))
    [('0', Linear(in_features=3, out_features=2, bias=True)), ('1', ReLU())]
    >>> perceptron_layers(nn.Conv1d(1, 1, 1)) is None
    True
    """
    prefix, module = "", network
    if type(network) in (TensorDictModule, ValueOperator):
        prefix, module = "module.", network.get_submodule("module")
        if len(cast(TensorDictModule, network).in_keys) > 1 and type(module) is not MLP:
            return None
    if type(module) not in (nn.Sequential, MLP):
        return None
    # A layer may be there twice, which `named_children` would not show.
    layers = [
        (f"{prefix}{name}", cast(nn.Module, layer)) for name, layer in module._modules.items()
    ]
    owners = [layer for _, layer in layers if next(layer.parameters(), None) is not None]
    if (
        not layers
        or type(layers[0][1]) is not nn.Linear  # dropout of inputs would be that of all members
        or len({id(layer) for layer in owners}) < len(owners)
        or not all(_is_known(layer) for _, layer in layers)
        or has_hooks(network)
        or has_hooks(module)
    ):
        return None
    shape = module.out_features if type(module) is MLP and module._reshape_out else None
    if shape is not None:
        layers.append(("", nn.Unflatten(-1, tuple(cast(Sequence[int], shape)))))
    return layers


def evaluate_perceptrons(
    layers: Layers, weights: Mapping[str, Tensor], inputs: Tensor, *, shared: bool = True
) -> Tensor:
    """Outputs of R perceptrons.

    Features come before the batch between layers, ``[R, features, B]``: then every product of the
    forward and the backward pass reads and writes whole rows, the gradients of weights included.

    Args:
        layers: of :func:`perceptron_layers`.
        weights: parameters by name, each ``[R, …]``.
        inputs: ``[*, features]``, or ``[R, *, features]``.
        shared: whether all have the same inputs.

    Returns:
        ``[R, *, …]``.
    """
    batch = inputs.shape[:-1] if shared else inputs.shape[1:-1]
    layers, shape = _without_reshaping(layers)
    out = _run(layers, weights, _columns(inputs, shared)).mT
    return out.reshape(out.shape[0], *batch, *(shape or out.shape[-1:]))


def evaluate_masked_perceptrons(
    layers: Layers,
    weights: Mapping[str, Tensor],
    inputs: Tensor,
    action: Tensor,
    mask: Tensor,
    used: Tensor | None,
    *,
    shared: bool,
) -> Tensor:
    """Outputs of R perceptrons for K masked actions, of which action k has output k.

    The first layer is linear in the action: its product with the other inputs is computed once.
    The last layer computes the outputs that are kept.

    Args:
        layers: of :func:`perceptron_layers`, see :func:`takes_masked_action`.
        weights: parameters by name, each ``[R, …]``.
        inputs: ``[*, features]``, or ``[R, *, features]``, all but the action.
        action: ``[*, D]``, or ``[R, *, D]``; the layers read it last.
        mask: ``[K, D]``.
        used: ``[K, n]``, see :func:`~rlkit_sac.modules.masked_critic.used_dimensions`.
        shared: whether all perceptrons have the same inputs.

    Returns:
        ``[R, *, K, …]``.

    Raises:
        BatchError: for perceptrons without K outputs, or another action.
    """
    batch, count = inputs.shape[not shared : -1], len(mask)
    ((first, _), *between, (last, _)), shape = _without_reshaping(layers)
    weight, features = weights[f"{first}.weight"], inputs.shape[-1]
    outputs = weights[f"{last}.weight"]
    shape = shape or outputs.shape[1:2]
    check_mask(mask, shape[0], action.shape[-1])
    of_state = _linear(
        weight[..., :features], weights.get(f"{first}.bias"), _columns(inputs, shared)
    )
    of_actions = _of_actions(weight[..., features:], _columns(action, shared).mT, mask, used)
    hidden = of_state.unsqueeze(-2) + of_actions
    hidden = _run(between, weights, hidden.flatten(-2)).unflatten(-1, (count, -1))
    # A compiler fuses this sum with the activation before it, and outputs that are not kept are
    # not computed, as they would be by a product of matrices.
    own = outputs.unflatten(1, (count, -1)).permute(0, 3, 1, 2).unsqueeze(3)
    out = (hidden.unsqueeze(-1) * own).sum(1)
    bias = weights.get(f"{last}.bias")
    if bias is not None:
        out = out + bias.unflatten(1, (count, -1)).unsqueeze(2)
    return out.transpose(1, 2).reshape(len(out), *batch, *shape)


def perceptron_chain(network: TensorDictModuleBase, key: NestedKey) -> Chain | None:
    """The perceptrons of a network, up to the one that writes an entry; ``None`` for others.

    Args:
        network: a perceptron or a sequence of modules.
        key: of the entry, unraveled.
    """
    chain: Chain = []
    for part in flat_parts(network, plain=True):
        layers = perceptron_layers(part)
        if layers is None:
            return None
        chain.append((cast(TensorDictModule, part), layers))
        if unravel_key(part.out_keys[0]) == key:
            return chain
    return None


def takes_masked_action(chain: Chain, key: NestedKey) -> bool:
    """Whether the last perceptron of a chain reads the action last, and none before reads it.

    It must have several linear layers, of which one comes last, as
    :func:`evaluate_masked_perceptrons` needs them.
    """
    *before, (last, layers) = chain
    linear = [isinstance(layer, nn.Linear) for _, layer in _without_reshaping(layers)[0]]
    *others, read = map(unravel_key, last.in_keys)
    taken_before = any(key in map(unravel_key, part.in_keys) for part, _ in before)
    return read == key and bool(others) and linear[-1] and sum(linear) > 1 and not taken_before


def _of_actions(weight: Tensor, action: Tensor, mask: Tensor, used: Tensor | None) -> Tensor:
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


def _without_reshaping(layers: Layers) -> tuple[Layers, tuple[int, ...]]:
    """The layers but for a last one that reshapes outputs, and their shape, ``()`` without."""
    last = layers[-1][1]
    if isinstance(last, nn.Unflatten):
        return layers[:-1], tuple(cast(Sequence[int], last.unflattened_size))
    return layers, ()


def _columns(inputs: Tensor, shared: bool) -> Tensor:
    """Inputs as a matrix ``[features, B]``, or ``[R, features, B]``."""
    return inputs.reshape(*inputs.shape[: not shared], -1, inputs.shape[-1]).mT


def _run(layers: Layers, weights: Mapping[str, Tensor], hidden: Tensor) -> Tensor:
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


def _is_known(layer: nn.Module) -> bool:
    """Whether :func:`evaluate_perceptrons` can evaluate the layer, which has no hooks."""
    known = type(layer) in (nn.Linear, *_ELEMENTWISE) or (
        type(layer) is nn.LayerNorm and len(layer.normalized_shape) == 1
    )
    return known and not has_hooks(layer)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | str | Temperature | None)
