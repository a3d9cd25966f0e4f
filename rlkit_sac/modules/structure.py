"""What networks are made of: their parts, their layers, and whether two are built alike."""

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

#: Elementwise layers.
_ELEMENTWISE: tuple[type[nn.Module], ...] = (
    *(nn.ReLU, nn.LeakyReLU, nn.ELU, nn.SiLU, nn.GELU, nn.Mish, nn.Softplus),
    *(nn.Tanh, nn.Sigmoid, nn.Identity, nn.Dropout),
)

Layers = list[tuple[str, nn.Module]]


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


def perceptron_layers(network: nn.Module) -> tuple[Layers, tuple[int, ...]] | None:
    """The layers of a perceptron with the names of their parameters' owners, in order.

    Args:
        network: a module, or a ``TensorDictModule`` around one.

    Returns:
        The layers, and the shape of the outputs of a state where they are not a vector; ``None``
        for what is not known to be a perceptron.

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
    return layers, () if shape is None else tuple(cast(Sequence[int], shape))


def refuse_batch_norm(network: nn.Module, name: str) -> None:
    """Refuse a network whose layers keep running statistics of their inputs.

    Target updaters track parameters, not buffers: the statistics of a target critic would never be
    updated, and forward passes at next states would update those of the other networks.

    Args:
        network: an actor or a critic.
        name: of the network in the error.

    Raises:
        ConfigError: naming the layer.
    """
    for path, module in network.named_modules():
        if getattr(module, "track_running_stats", False):
            raise ConfigError(
                f"{name} has a {type(module).__name__} at {path!r}, whose running statistics no "
                "target network follows: use LayerNorm, or track_running_stats=False"
            )


def split_network(
    network: TensorDictModuleBase, key: NestedKey
) -> tuple[list[TensorDictModuleBase], list[TensorDictModuleBase]]:
    """The parts of a network before the first one that reads an entry, and the others.

    Raises:
        ConfigError: where no part reads it.
    """
    parts, wanted = list(flat_parts(network, plain=True)), unravel_key(key)
    for place, part in enumerate(parts):
        if wanted in map(unravel_key, part.in_keys):
            return parts[:place], parts[place:]
    raise ConfigError(f"the critic reads {network.in_keys}, not the continuous action {key!r}")


def flat_parts(
    network: TensorDictModuleBase, *, plain: bool = False
) -> Iterator[TensorDictModuleBase]:
    """The modules of a network in order, of sequences in it theirs.

    Args:
        network: any.
        plain: leave sequences whole that are of a subclass or have hooks, and may do more than to
            call their modules.
    """
    whole = not isinstance(network, TensorDictSequential)
    if plain:
        whole = type(network) is not TensorDictSequential or has_hooks(network)
    if whole:
        yield network
        return
    for part in network.module:
        yield from flat_parts(part, plain=plain)


def find_path(part: nn.Module, network: nn.Module) -> str:
    """The name of a part in a network, ``""`` for the whole."""
    return next(name for name, module in network.named_modules() if module is part)


def has_hooks(module: nn.Module) -> bool:
    """Whether calling a module does more than its ``forward``."""
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


def _is_known(layer: nn.Module) -> bool:
    """Whether an ensemble of perceptrons can be evaluated with this layer, which has no hooks."""
    known = type(layer) in (nn.Linear, *_ELEMENTWISE) or (
        type(layer) is nn.LayerNorm and len(layer.normalized_shape) == 1
    )
    return known and not has_hooks(layer)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | str | Temperature | None)
