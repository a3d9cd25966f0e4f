"""The losses and updates that are timed, and batches for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn
from torch.distributed import ProcessGroup
from torch.optim import Adam
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import LossModule, SACLoss, SoftUpdate

from rlkit_sac.config import PositiveInt, UpdateConfig
from rlkit_sac.modules import (
    action_value_critic,
    hybrid_critic,
    state_action_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.objectives import ContinuousSACLoss, DiscreteSACLoss, HybridSACLoss
from rlkit_sac.runs import parameter_groups, update_steps
from rlkit_sac.updates import Update

LossName = Literal["continuous", "discrete", "hybrid", "torchrl"]
LOSS_NAMES: tuple[LossName, ...] = get_args(LossName)


@dataclass(frozen=True)
class Task:
    """The sizes of a task.

    Args:
        name: of the task whose sizes these are.
        observation_dim: length of the observation.
        action_dim: number of continuous dimensions.
        num_actions: number of discrete actions.
    """

    name: str
    observation_dim: int
    action_dim: int
    num_actions: int


HALF_CHEETAH = Task("HalfCheetah", 17, 6, 3)
PLATFORM = Task("Platform", 9, 3, 3)


@dataclass
class UpdateTimingConfig:
    """The sizes of an update, and how often it is timed."""

    num_cells: list[PositiveInt] = field(default_factory=lambda: [256, 256])
    """Widths of the hidden layers of actor and critics."""
    batch_size: PositiveInt = 256
    """Transitions of an update."""
    num_qvalue_nets: PositiveInt = 2
    """Number of critics."""
    rounds: PositiveInt = 60
    """Rounds, in which each contestant has one turn."""
    updates: PositiveInt = 5
    """Updates of a turn."""
    warm_up: PositiveInt = 10
    """Updates of each contestant before the first turn."""
    num_threads: PositiveInt = 1
    """PyTorch's CPU threads."""
    output: str | None = None
    """CSV file for the times of each round; null writes none."""


def make_loss(
    name: LossName,
    task: Task,
    config: UpdateTimingConfig,
    *,
    critic: dict[str, Any] | None = None,
    **options: Any,
) -> LossModule:
    """A loss with networks as the recipes make them; TorchRL's with networks as its users do.

    Args:
        name: ``"torchrl"`` is TorchRL's ``SACLoss``, the others are ours.
        task: whose sizes the networks have.
        config: widths and number of critics.
        critic: further arguments of the critics of the hybrid loss.
        **options: further options of our losses.
    """
    if name == "torchrl":
        return _torchrl_loss(task, config)
    nets = {"num_qvalue_nets": config.num_qvalue_nets, "diagnostics": True, **options}
    sizes = {"observation_dim": task.observation_dim, "num_cells": config.num_cells}
    if name == "discrete":
        return DiscreteSACLoss(action_value_critic(**sizes, num_actions=task.num_actions), **nets)
    bounds = {"action_low": [-1.0] * task.action_dim, "action_high": [1.0] * task.action_dim}
    if name == "continuous":
        values = state_action_critic(**sizes, action_dim=task.action_dim)
        return ContinuousSACLoss(tanh_gaussian_actor(**sizes, **bounds), values, **nets)
    actor = tanh_gaussian_actor(**sizes, **bounds, action_key=("action", "continuous"))
    action = {"action_dim": task.action_dim, "num_actions": task.num_actions}
    return HybridSACLoss(actor, hybrid_critic(**sizes, **action, **(critic or {})), **nets)


def random_batch(name: LossName, task: Task, size: int) -> TensorDict:
    """Transitions of random numbers, none of which ends an episode.

    Args:
        name: of the loss that reads them.
        task: whose sizes they have.
        size: number of transitions.
    """
    continuous = 2 * torch.rand(size, task.action_dim) - 1
    discrete = torch.randint(task.num_actions, (size,))
    actions = {
        "continuous": continuous,
        "torchrl": continuous,
        "discrete": discrete,
        "hybrid": TensorDict(continuous=continuous, discrete=discrete, batch_size=[size]),
    }
    return TensorDict(
        observation=torch.randn(size, task.observation_dim),
        action=actions[name],
        next=TensorDict(
            observation=torch.randn(size, task.observation_dim),
            reward=torch.randn(size, 1),
            done=torch.zeros(size, 1, dtype=torch.bool),
            terminated=torch.zeros(size, 1, dtype=torch.bool),
            batch_size=[size],
        ),
        batch_size=[size],
    )


def _torchrl_loss(task: Task, config: UpdateTimingConfig) -> SACLoss:
    sizes = {"num_cells": config.num_cells, "activation_class": nn.ReLU}
    body = MLP(in_features=task.observation_dim, out_features=2 * task.action_dim, **sizes)
    actor = ProbabilisticActor(
        TensorDictModule(
            nn.Sequential(body, NormalParamExtractor()),
            in_keys=["observation"],
            out_keys=["loc", "scale"],
        ),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        return_log_prob=False,
    )
    critic = ValueOperator(
        MLP(in_features=task.observation_dim + task.action_dim, out_features=1, **sizes),
        in_keys=["action", "observation"],
    )
    return SACLoss(
        actor,
        critic,
        num_qvalue_nets=config.num_qvalue_nets,
        loss_function="l2",
        target_entropy=-float(task.action_dim),
    )


def make_update(
    loss_module: LossModule,
    config: UpdateConfig,
    *,
    compile_from: int | None = None,
    group: ProcessGroup | None = None,
) -> Update:
    """The update of the recipes of soft actor-critic.

    Args:
        loss_module: a loss of :func:`make_loss`.
        config: learning rates, order, periods.
        compile_from: count of the first update that is compiled; None for no update.
        group: processes that share each batch.
    """
    groups = parameter_groups(loss_module)
    optimizers = {
        name: Adam(
            group, lr=getattr(config, f"lr_{name}"), fused=group[0].device.type in ("cpu", "cuda")
        )
        for name, group in groups.items()
    }
    return Update(
        loss_module,
        optimizers,
        update_steps(config, groups),
        target_updater=SoftUpdate(loss_module, tau=config.target_update_tau),
        compile_from=compile_from,
        matmul_precision=config.matmul_precision,
        group=group,
    )
