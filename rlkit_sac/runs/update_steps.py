"""The steps and parameters that the names in ``update.order`` stand for."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain

from torch.nn import Parameter
from torchrl.objectives import LossModule

from rlkit_sac.config import UpdateConfig
from rlkit_sac.errors import ConfigError
from rlkit_sac.updates.steps import LossStep, Step, TargetStep

#: For each name in ``update.order`` the beginnings of its parameters' names in the loss.
PARAMETER_PREFIXES = {
    "actor": ("actor_network_params",),
    "qvalue": ("qvalue_network_params", "encoder_network_params"),
    "value": ("value_network_params",),
    "alpha": ("log_alpha",),
}


def parameter_groups(loss_module: LossModule) -> dict[str, list[Parameter]]:
    """The trainable parameters of a loss, by the name of the step that trains them.

    Without an actor, a value network or a learned temperature there is no group of that name.

    Args:
        loss_module: a loss of the soft actor-critic family.

    Raises:
        ConfigError: for a parameter that no step trains.

    >>> from rlkit_sac.modules import state_action_critic, tanh_gaussian_actor
    >>> from rlkit_sac.objectives import ContinuousSACLoss
    >>> networks = tanh_gaussian_actor(3, [-1.0], [1.0]), state_action_critic(3, 1)
    >>> list(parameter_groups(ContinuousSACLoss(*networks)))
    ['actor', 'qvalue', 'alpha']
    >>> list(parameter_groups(ContinuousSACLoss(*networks, fixed_alpha=True)))
    ['actor', 'qvalue']
    """
    groups: dict[str, list[Parameter]] = {name: [] for name in PARAMETER_PREFIXES}
    for key, parameter in loss_module.named_parameters():
        names = [name for name, begins in PARAMETER_PREFIXES.items() if key.startswith(begins)]
        if not names:
            raise ConfigError(
                f"no step of the update trains {key!r} of {type(loss_module).__name__}: it knows "
                f"{', '.join(chain(*PARAMETER_PREFIXES.values()))}"
            )
        groups[names[0]].append(parameter)
    return {name: parameters for name, parameters in groups.items() if parameters}


def update_steps(config: UpdateConfig, groups: Collection[str]) -> list[Step]:
    """The steps of ``config.order``, in its order.

    A step on parameters that the loss does not train, such as a fixed temperature, is left out.

    Args:
        config: order, periods, and where losses are computed anew.
        groups: names from :func:`parameter_groups`; each is also that of its optimizer.

    >>> update_steps(UpdateConfig(order=["qvalue", "alpha", "target"]), ["actor", "qvalue"])
    [LossStep(losses=('loss_qvalue',), optimizers=('qvalue',), ...), TargetStep(period=1)]
    """
    steps: list[Step] = []
    for entry in config.entries():
        period = config.periods.get(entry[0], 1)
        if entry == ["target"]:
            steps.append(TargetStep(period))
            continue
        names = tuple(name for name in (groups if entry == ["joint"] else entry) if name in groups)
        if names:
            recompute = any(name in config.recompute_from() for name in entry)
            losses = tuple(f"loss_{name}" for name in names)
            steps.append(LossStep(losses, names, period, recompute))
    return steps
