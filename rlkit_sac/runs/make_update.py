"""From a configuration to the update of a soft actor-critic loss."""

from __future__ import annotations

import torch
from torch.nn import Parameter
from torchrl.objectives import LossModule, SoftUpdate

from rlkit_sac.config import UpdateConfig, ValueUpdateConfig
from rlkit_sac.errors import ConfigError
from rlkit_sac.updates.steps import LossStep, TargetStep
from rlkit_sac.updates.update import Update

#: For each name in ``UpdateConfig.order`` the beginning of its parameters' names in the loss.
PARAMETER_PREFIXES = {
    "actor": "actor_network_params",
    "qvalue": "qvalue_network_params",
    "value": "value_network_params",
    "alpha": "log_alpha",
}


def make_update(
    loss_module: LossModule, config: UpdateConfig, *, compile_from: int | None = None
) -> Update:
    """Adam optimizers, the order of steps and the target updater that a configuration asks for.

    Args:
        loss_module: a loss of the soft actor-critic family.
        config: learning rates, order, periods.
        compile_from: count of the first update that is compiled; None for no update.

    Raises:
        ConfigError: for a loss with a value network without a learning rate for it.

    >>> from rlkit_sac.modules import state_action_critic, tanh_gaussian_actor
    >>> from rlkit_sac.objectives import ContinuousSACLoss
    >>> loss = ContinuousSACLoss(tanh_gaussian_actor(3, [-1.0], [1.0]), state_action_critic(3, 1))
    >>> [type(step).__name__ for step in make_update(loss, UpdateConfig()).steps]
    ['LossStep', 'TargetStep']
    """
    groups = parameter_groups(loss_module)
    if "value" in groups and not isinstance(config, ValueUpdateConfig):
        raise ConfigError(
            f"{type(loss_module).__name__} has a value network, of which {type(config).__name__} "
            "knows nothing: pass a ValueUpdateConfig"
        )
    optimizers = {
        name: torch.optim.Adam(
            parameters,
            lr=getattr(config, f"lr_{name}"),
            eps=config.adam_eps,
            fused=parameters[0].device.type in ("cpu", "cuda"),
        )
        for name, parameters in groups.items()
    }
    steps: list[LossStep | TargetStep] = []
    for entry in config.entries():
        period = config.periods.get(entry[0], 1)
        if entry == ["target"]:
            steps.append(TargetStep(period))
            continue
        asked = groups if entry == ["joint"] else entry
        names = tuple(name for name in asked if name in groups)  # a fixed temperature has no step
        if names:
            losses = tuple(f"loss_{name}" for name in names)
            fresh = any(name in config.fresh() for name in entry)
            steps.append(LossStep(losses, names, period, fresh))
    return Update(
        loss_module,
        optimizers,
        steps,
        target_updater=SoftUpdate(loss_module, tau=config.target_update_tau),
        max_grad_norm=config.max_grad_norm,
        recompute=config.recompute is True,
        compile_from=compile_from,
        matmul_precision=config.matmul_precision,
    )


def parameter_groups(loss_module: LossModule) -> dict[str, list[Parameter]]:
    """The trainable parameters of a loss, by the name of the step that trains them.

    Raises:
        ConfigError: for a parameter that no step trains.
    """
    prefixes = tuple(PARAMETER_PREFIXES.values())
    for name, _ in loss_module.named_parameters():
        if not name.startswith(prefixes):
            raise ConfigError(
                f"no step of the update trains {name!r} of {type(loss_module).__name__}: it knows "
                f"{', '.join(prefixes)}"
            )
    groups: dict[str, list[Parameter]] = {}
    for group, prefix in PARAMETER_PREFIXES.items():
        found = [p for name, p in loss_module.named_parameters() if name.startswith(prefix)]
        if found:
            groups[group] = found
    return groups
