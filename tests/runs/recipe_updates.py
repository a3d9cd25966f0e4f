"""The updates that the recipes make, for tests of losses, steps and options."""

from typing import Any

from torch.optim import Adam, RMSprop
from torchrl.objectives import LossModule, SoftUpdate

from rlkit_sac.config import UpdateConfig
from rlkit_sac.runs import parameter_groups, update_steps
from rlkit_sac.updates import LossStep, TargetStep, Update


def make_update(
    loss_module: LossModule, config: UpdateConfig, *, compile_from: int | None = None
) -> Update:
    groups = parameter_groups(loss_module)
    steps = update_steps(config, groups)
    optimizers = {
        name: Adam(
            group,
            lr=getattr(config, f"lr_{name}"),
            eps=config.adam_eps,
            fused=group[0].device.type in ("cpu", "cuda"),
        )
        for name, group in groups.items()
    }
    return Update(
        loss_module,
        optimizers,
        steps,
        target_updater=SoftUpdate(loss_module, tau=config.target_update_tau),
        max_grad_norm=config.max_grad_norm,
        recompute=config.recompute is True,
        compile_from=compile_from,
        matmul_precision=config.matmul_precision,
        cuda_graph=config.cuda_graph,
    )


def make_acer_update(loss_module: LossModule, **options: Any) -> Update:
    names = ("loss_actor", "loss_critic", "loss_entropy")
    return Update(
        loss_module,
        {"all": RMSprop(loss_module.parameters(), 1e-3, eps=1e-5)},
        [LossStep(names, ("all",)), TargetStep()],
        target_updater=SoftUpdate(loss_module, tau=0.1),
        **options,
    )
