"""From a configuration to the update of actor-critic with experience replay."""

from __future__ import annotations

import torch
from torchrl.objectives import LossModule, SoftUpdate

from rlkit_sac.config import ACERUpdateConfig
from rlkit_sac.updates.steps import LossStep, TargetStep
from rlkit_sac.updates.update import Update

LOSSES = ("loss_actor", "loss_critic", "loss_entropy")


def make_acer_update(
    loss_module: LossModule, config: ACERUpdateConfig, *, compile_from: int | None = None
) -> Update:
    """One RMSprop optimizer of all networks, whose gradient is bounded, then the average policy.

    Args:
        loss_module: an :class:`~rlkit_sac.objectives.ACERLoss`.
        config: learning rate, bound, rate of the average policy.
        compile_from: count of the first update that is compiled; None for no update.

    >>> from rlkit_sac.modules import action_value_critic, categorical_actor
    >>> from rlkit_sac.objectives import ACERLoss
    >>> loss = ACERLoss(categorical_actor(3, 2), action_value_critic(3, 2))
    >>> list(make_acer_update(loss, ACERUpdateConfig()).optimizers)
    ['all']
    """
    optimizer = torch.optim.RMSprop(
        loss_module.parameters(), config.lr, alpha=config.rmsprop_alpha, eps=config.rmsprop_eps
    )
    return Update(
        loss_module,
        {"all": optimizer},
        [LossStep(LOSSES, ("all",)), TargetStep()],
        target_updater=SoftUpdate(loss_module, tau=config.target_update_tau),
        max_grad_norm=config.max_grad_norm,
        compile_from=compile_from,
        matmul_precision=config.matmul_precision,
    )
