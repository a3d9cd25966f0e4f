"""The members of a critic ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from tensordict import TensorDict
from torch import nn
from torchrl.objectives import LossModule

from rlkit_sac.config.bounds import ModestInt
from rlkit_sac.config.loss import LossConfig
from rlkit_sac.config.values import check_value
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.ensemble import check_same_structure
from rlkit_sac.objectives.checks.networks import refuse_batch_norm


def critic_list(
    network: nn.Module | Sequence[nn.Module], count: int | None = None
) -> list[nn.Module]:
    """The members of a critic ensemble, each with its own parameters and initialization.

    A single module is the first member; the others are copies of it whose layers are
    reinitialized by their ``reset_parameters``. The modules of a list are used as given.

    Args:
        network: one critic, or a list with one critic for each member.
        count: number of members to make of a single critic, by default 2; ignored for a list.

    Raises:
        ConfigError: if the members are not independent networks of the same structure.

    >>> first, second = critic_list(nn.Linear(2, 1), 2)
    >>> bool((first.weight != second.weight).all())
    True
    """
    if isinstance(network, nn.Module) and not isinstance(network, nn.ModuleList):
        refuse_batch_norm(network, "qvalue_network")
        count = LossConfig.num_qvalue_nets if count is None else count
        check_value("num_qvalue_nets", count, ModestInt)
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
