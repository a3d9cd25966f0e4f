"""The list of critics an ensemble is built from."""

import re
from collections.abc import Sequence
from copy import deepcopy

from torch import nn
from torch.nn.parameter import is_lazy

from rlkit_sac.errors import ConfigError


def critic_list(network: nn.Module | Sequence[nn.Module], count: int) -> list[nn.Module]:
    """The members of a critic ensemble, each with parameters and an initialization of its own.

    A single module is the first member; the others are copies of it whose layers are initialized
    afresh by their ``reset_parameters``. A list is kept as it is.

    Args:
        network: one critic, or a list with one critic for each member.
        count: number of members to make of a single critic; a list brings its own.

    Raises:
        ConfigError: where the members would not be independent networks of one structure.

    >>> first, second = critic_list(nn.Linear(2, 1), 2)
    >>> bool((first.weight != second.weight).all())
    True
    """
    if isinstance(network, nn.Module) and not isinstance(network, nn.ModuleList):
        if count < 1:
            raise ConfigError(f"num_qvalue_nets must be at least 1, not {count}")
        check_member(network, "qvalue_network")
        return [network, *(_fresh_copy(network) for _ in range(count - 1))]
    critics = list(network)
    if not critics:
        raise ConfigError("qvalue_network is an empty list: pass one critic, or one per member")
    if count not in (len(critics), DEFAULT_COUNT):
        raise ConfigError(
            f"num_qvalue_nets is {count}, but qvalue_network is a list of {len(critics)}: "
            "leave num_qvalue_nets out, a list brings its own number"
        )
    seen: dict[int, int] = {}
    for index, critic in enumerate(critics):
        check_member(critic, f"qvalue_network[{index}]")
        _check_same_structure(critics[0], critic, index)
        for parameter in critic.parameters():
            if seen.setdefault(id(parameter), index) != index:
                raise ConfigError(
                    f"qvalue_network[{index}] shares parameters with "
                    f"qvalue_network[{seen[id(parameter)]}]: the minimum over critics needs "
                    "independent ones; build each, or pass a single module and num_qvalue_nets"
                )
    return critics


#: Members made of a single critic, unless told otherwise.
DEFAULT_COUNT = 2


def refuse_batch_norm(network: nn.Module, name: str) -> None:
    """Refuse a network whose layers keep running statistics of their inputs.

    Target updaters track parameters, not buffers: a target critic's statistics would never move,
    and the forward passes at next states would move those of the others.

    Args:
        network: an actor or a critic.
        name: what to call it.

    Raises:
        ConfigError: naming the layer.
    """
    for path, module in network.named_modules():
        if getattr(module, "track_running_stats", False):
            raise ConfigError(
                f"{name} has a {type(module).__name__} at {path!r}, whose running statistics no "
                "target network follows: use LayerNorm, or track_running_stats=False"
            )


def check_member(critic: nn.Module, name: str) -> None:
    """Refuse a critic that no target network could follow, or whose parameters are not there yet.

    Args:
        critic: one network.
        name: what to call it.

    Raises:
        ConfigError: naming the layer or what to do.
    """
    refuse_batch_norm(critic, name)
    if any(is_lazy(parameter) for parameter in critic.parameters()):
        raise ConfigError(
            f"{name} has lazy layers without parameters yet: call it once on a batch before "
            "building the loss, so that members can be copied and compared"
        )


def _check_same_structure(first: nn.Module, critic: nn.Module, index: int) -> None:
    wanted = {name: tuple(value.shape) for name, value in first.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in critic.state_dict().items()}
    # One module's code runs with every member's parameters, so the code must be the same too.
    if wanted != found or _code(first) != _code(critic):
        raise ConfigError(
            f"qvalue_network[{index}] is built differently from qvalue_network[0]: "
            f"{_first_difference(wanted, found, first, critic)}; "
            "members are evaluated in one batched call, so they need the same layers"
        )


def _first_difference(
    wanted: dict[str, tuple[int, ...]],
    found: dict[str, tuple[int, ...]],
    first: nn.Module,
    critic: nn.Module,
) -> str:
    for name in [*wanted, *found]:
        if wanted.get(name) != found.get(name):
            return f"{name} has shape {found.get(name)}, wanted {wanted.get(name)}"
    lines = zip(_code(first), _code(critic), strict=False)
    came, want = next((b.strip(), a.strip()) for a, b in lines if a != b)
    return f"found {came!r}, wanted {want!r}"


def _code(critic: nn.Module) -> list[str]:
    """What a module computes, as far as it shows: its layers and their plain attributes."""
    lines = re.sub(r" at 0x[0-9a-f]+", "", repr(critic)).splitlines()
    for name, module in critic.named_modules():
        lines += [
            f"{name}.{attribute} = {value!r}"
            for attribute, value in sorted(vars(module).items())
            if isinstance(value, bool | int | float | str | tuple) and attribute != "training"
        ]
    return lines


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
