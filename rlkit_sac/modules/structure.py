"""The structure of networks: their parts and layers, and whether two have the same structure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any, cast

from tensordict import NestedKey, unravel_key
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential
from torch import nn
from torchrl.modules import MLP, ValueOperator

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.temperature import Temperature

#: Layers that act on each element separately.
_ELEMENTWISE: tuple[type[nn.Module], ...] = (
    *(nn.ReLU, nn.LeakyReLU, nn.ELU, nn.SiLU, nn.GELU, nn.Mish, nn.Softplus),
    *(nn.Tanh, nn.Sigmoid, nn.Identity, nn.Dropout),
)

Layers = list[tuple[str, nn.Module]]


def check_same_structure(members: Sequence[nn.Module], index: int, name: str) -> None:
    """Refuse a member of an ensemble whose structure differs from the first member.

    The code of one member runs for all of them. The check compares the shapes of tensors, the types
    of layers, and the attributes of layers that are numbers, strings or functions.

    Args:
        members: the networks of the ensemble.
        index: the index of the member to check.
        name: the name of the members, for the error.

    Raises:
        ConfigError: naming what differs.

    >>> check_same_structure([nn.Linear(2, 1), nn.Linear(3, 1)], 1, "members")
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: members[1] is built differently from members[0]: weight is ...
    """
    first, member = structure(members[0]), structure(members[index])
    for part in {**first, **member}:
        if first.get(part) != member.get(part):
            raise ConfigError(
                f"{name}[{index}] is built differently from {name}[0]: {part} is "
                f"{member.get(part)}, wanted {first.get(part)}; members are evaluated in one "
                "batched call, so they need the same layers"
            )


def structure(network: nn.Module) -> dict[str, str]:
    """Return the shapes of a network's tensors, its layers' types and their attributes, as text.

    It includes attributes that are numbers, texts, functions or classes, or sequences of these.

    >>> structure(nn.Linear(2, 1))["out_features of ''"]
    '1'
    """
    tensors = (*network.named_parameters(), *network.named_buffers())
    parts = {name: f"of shape {tuple(value.shape)}" for name, value in tensors}
    for name, layer in network.named_modules():
        parts[f"the layer {name!r}"] = type(layer).__name__
        for key, value in vars(layer).items():
            if isinstance(value, FunctionType | BuiltinFunctionType | type):
                parts[f"{key} of {name!r}"] = value.__qualname__
            # The arguments of a distribution hold the bounds of actions.
            elif key == "distribution_kwargs" or (key != "training" and _is_plain(value)):
                parts[f"{key} of {name!r}"] = str(value)
    return parts


def changed_layer(saved: Mapping[str, str], network: nn.Module, names: Iterable[str] = "'") -> str:
    """Describe the first difference of a network's layers and their attributes from saved ones.

    Args:
        saved: the result of :func:`structure` for the saved network. Parts that only one of the two
            networks has, such as attributes of another version, are ignored.
        network: a network with the same weights.
        names: texts; only parts that contain one of them are compared. Default: everything except
            shapes.

    Returns:
        The description, or an empty text if nothing differs.

    >>> changed_layer(structure(nn.ReLU()), nn.Tanh())
    "the layer '' was ReLU and is Tanh here"
    """
    current = structure(network)
    changed = (part for part in saved if current.get(part, saved[part]) != saved[part])
    part = next((part for part in changed if any(name in part for name in names)), "")
    return part and f"{part} was {saved[part]} and is {current[part]} here"


def perceptron_layers(network: nn.Module) -> tuple[Layers, tuple[int, ...]] | None:
    """Return the layers of a perceptron in order, each with its path in the network.

    Args:
        network: a module, or a ``TensorDictModule`` around one.

    Returns:
        The layers, and the shape of one state's outputs if they are not a vector. ``None`` if the
        network is not known to be a perceptron.

    >>> perceptron_layers(nn.Sequential(nn.Linear(3, 2), nn.ReLU()))
    ([('0', Linear(in_features=3, out_features=2, bias=True)), ('1', ReLU())], ())
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
    # `named_children` would not show a layer that occurs twice.
    layers = [
        (f"{prefix}{name}", cast(nn.Module, layer)) for name, layer in module._modules.items()
    ]
    owners = [layer for _, layer in layers if next(layer.parameters(), None) is not None]
    if (
        not layers
        or type(layers[0][1]) is not nn.Linear  # all members would share a dropout of the inputs
        or len({id(layer) for layer in owners}) < len(owners)
        or not all(_is_supported_layer(layer) for _, layer in layers)
        or has_hooks(network)
        or has_hooks(module)
    ):
        return None
    shape = module.out_features if type(module) is MLP and module._reshape_out else None
    return layers, () if shape is None else tuple(cast(Sequence[int], shape))


def refuse_batch_norm(network: nn.Module, name: str) -> None:
    """Refuse a network whose layers keep running statistics of their inputs.

    Target updaters track parameters, not buffers: the statistics of a target critic would never be
    updated, and forward passes at next states would update those of the other networks.

    Args:
        network: an actor or a critic.
        name: the name of the network, for the error.

    Raises:
        ConfigError: naming the layer.
    """
    for path, module in network.named_modules():
        if getattr(module, "track_running_stats", False):
            raise ConfigError(
                f"{name} has a {type(module).__name__} at {path!r}, whose running statistics no "
                "target network follows: use LayerNorm, or track_running_stats=False"
            )


def split_at_reader(
    network: TensorDictModuleBase, key: NestedKey
) -> tuple[list[TensorDictModuleBase], list[TensorDictModuleBase]]:
    """Split a network into the parts before the first part that reads an entry, and the others.

    Raises:
        ConfigError: if no part reads the entry.
    """
    parts = list(flatten_sequences(network, plain=True))
    for i, part in enumerate(parts):
        if unravel_key(key) in map(unravel_key, part.in_keys):
            return parts[:i], parts[i:]
    raise ConfigError(f"the critic reads {network.in_keys}, not the continuous action {key!r}")


def flatten_sequences(
    network: TensorDictModuleBase, *, plain: bool = False
) -> Iterator[TensorDictModuleBase]:
    """Yield the modules of a network in order. Sequences are replaced by their modules.

    Args:
        network: any module.
        plain: whether to keep sequences whole if they have hooks or are of a subclass, since these
            may do more than call their modules.
    """
    whole = not isinstance(network, TensorDictSequential)
    if plain:
        whole = type(network) is not TensorDictSequential or has_hooks(network)
    if whole:
        yield network
        return
    for part in network.module:
        yield from flatten_sequences(part, plain=plain)


def submodule_name(part: nn.Module, network: nn.Module) -> str:
    """Return the name of a part in a network, ``""`` for the network itself."""
    return next(name for name, module in network.named_modules() if module is part)


def has_hooks(module: nn.Module) -> bool:
    """Return whether calling a module does more than its ``forward``."""
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


def _is_supported_layer(layer: nn.Module) -> bool:
    """Return whether the evaluation of an ensemble of perceptrons supports this layer."""
    known = type(layer) in (nn.Linear, *_ELEMENTWISE) or (
        type(layer) is nn.LayerNorm and len(layer.normalized_shape) == 1
    )
    return known and not has_hooks(layer)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | str | Temperature | None)
