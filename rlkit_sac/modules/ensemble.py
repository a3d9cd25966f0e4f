"""Ensembles of perceptrons, evaluated with one batched matrix product for each layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any, cast

import torch
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torch.nn import functional as F
from torchrl.modules import MLP, ValueOperator

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.critics import stack_critics

#: Elementwise layers.
_ELEMENTWISE: tuple[type[nn.Module], ...] = (
    *(nn.ReLU, nn.LeakyReLU, nn.ELU, nn.SiLU, nn.GELU, nn.Mish, nn.Softplus),
    *(nn.Tanh, nn.Sigmoid, nn.Identity, nn.Dropout),
)

Layers = list[tuple[str, nn.Module]]


class CriticEnsemble(nn.Module):
    """Perceptrons of one structure with stacked weights ``[R, …]``, evaluated together.

    Each layer is one batched matrix product with contiguous weights: a fraction of the cost of
    ``vmap``, and gradients have the layout of the weights. The losses evaluate critics that are
    perceptrons this way by themselves, and other networks with ``vmap``.

    Args:
        members: ``MLP`` or ``Sequential`` modules of linear layers, layer norms, dropout and
            activations, which are copied.

    Reads tensors ``[*, …]``, joined along the last dimension; returns ``[R, *, …]``.

    Raises:
        ConfigError: for another kind of network, or members of different structures.

    >>> critics = CriticEnsemble([MLP(in_features=4, out_features=1, num_cells=[8])] * 5)
    >>> critics(torch.zeros(8, 3), torch.zeros(8, 1)).shape
    torch.Size([5, 8, 1])
    """

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        layers = perceptron_layers(members[0])
        for index in range(1, len(members)):
            check_same_structure(members, index, "members")
        if layers is None:
            raise ConfigError(
                f"{type(members[0]).__name__} is not a perceptron of linear layers, layer norms, "
                "dropout and activations: a loss takes such networks as they are, through vmap"
            )
        self.members = stack_critics(members)

    def forward(self, *inputs: Tensor) -> Tensor:
        """The outputs of each member."""
        layers = perceptron_layers(self.members)
        assert layers is not None
        weights = dict(self.members.named_parameters())
        return evaluate_perceptrons(layers, weights, torch.cat(inputs, -1))


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


def structure(network: nn.Module) -> dict[str, Any]:
    """The shapes of a network's tensors, the types of its layers and their plain attributes.

    >>> structure(nn.Identity())
    {"the layer ''": 'Identity'}
    """
    tensors = (*network.named_parameters(), *network.named_buffers())
    found: dict[str, Any] = {name: f"of shape {tuple(value.shape)}" for name, value in tensors}
    for name, layer in network.named_modules():
        found[f"the layer {name!r}"] = type(layer).__name__
        for attribute, value in vars(layer).items():
            if isinstance(value, FunctionType):
                found[f"{attribute} of {name!r}"] = value.__qualname__
            elif _is_plain(value) and attribute != "training":
                found[f"{attribute} of {name!r}"] = value
    return found


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
        or _has_hooks(network)
        or _has_hooks(module)
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
    hidden = inputs.reshape(*inputs.shape[: not shared], -1, inputs.shape[-1]).mT
    shape: tuple[int, ...] = ()
    for name, layer in layers:
        if isinstance(layer, nn.Linear):
            hidden = _linear(weights[f"{name}.weight"], weights.get(f"{name}.bias"), hidden)
        elif isinstance(layer, nn.LayerNorm):
            hidden = F.layer_norm(hidden.mT, layer.normalized_shape, eps=layer.eps).mT
            if layer.elementwise_affine:
                hidden = hidden * weights[f"{name}.weight"].unsqueeze(-1)
                if layer.bias is not None:
                    hidden = hidden + weights[f"{name}.bias"].unsqueeze(-1)
        elif isinstance(layer, nn.Unflatten):
            shape = tuple(cast(Sequence[int], layer.unflattened_size))
        else:
            hidden = layer(hidden)
    out = hidden.mT
    return out.reshape(out.shape[0], *batch, *(shape or out.shape[-1:]))


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
    return known and not _has_hooks(layer)


def _has_hooks(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | str)
