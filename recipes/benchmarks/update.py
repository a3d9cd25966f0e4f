"""The time of one update, beside its own matrix products.

    python recipes/benchmarks/update.py
    python recipes/benchmarks/update.py --num_threads 2 --output update.csv
    python recipes/benchmarks/update.py --losses '[torchrl]' --matmul_precision exact
    python recipes/benchmarks/update.py --bfloat16 true

For our losses and for TorchRL's ``SACLoss``: the update as it is, the update with losses and
gradients in one compiled graph, and nothing but the matrix products of that graph, on the same
kernels, one after the other. An update is all of it: losses, gradients, Adam, the move of the
targets. All take turns, so that they meet the same load of the machine; each round gives a ratio,
and the table shows their medians with 95 % bootstrap intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, get_args

import pandas as pd
import torch
import torchrl_losses
from tensordict import TensorDict
from timing import UpdateTimingConfig, after_a_step, medians, run_benchmark
from torch import Tensor
from torch.fx import Node
from torch.optim import Adam
from torchrl.objectives import LossModule, SACLoss, SoftUpdate

from rlkit_sac.config import PositiveInt, UpdateConfig
from rlkit_sac.graph import MatmulPrecision, Recording, record, round_to_bf16, set_matmul_precision
from rlkit_sac.modules import (
    action_value_critic,
    hybrid_critic,
    state_action_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.objectives import ContinuousSACLoss, DiscreteSACLoss, HybridSACLoss
from rlkit_sac.runs import parameter_groups, run_recipe, update_steps
from rlkit_sac.updates import LossStep, Update
from rlkit_sac.updates.gradients import LossGradients
from rlkit_sac.updates.steps import Pass

LossName = Literal["continuous", "discrete", "hybrid", "torchrl"]
# Of HalfCheetah, and of a choice beside its actions.
OBSERVATION_DIM, ACTION_DIM, NUM_ACTIONS = 17, 6, 3
_PRODUCTS = {
    torch.ops.aten.mm.default: torch.mm,
    torch.ops.aten.addmm.default: torch.mm,
    torch.ops.aten.bmm.default: torch.bmm,
    torch.ops.aten.baddbmm.default: torch.bmm,
}


@dataclass
class UpdateBenchmarkConfig(UpdateTimingConfig):
    """What is measured, and how often."""

    losses: list[LossName] = field(default_factory=lambda: list(get_args(LossName)))
    """Whose updates; torchrl is TorchRL's SACLoss."""
    num_cells: list[PositiveInt] = field(default_factory=lambda: [256, 256])
    """Widths of the hidden layers of actor and critics."""
    batch_size: PositiveInt = 256
    """Transitions of an update."""
    num_qvalue_nets: PositiveInt = 2
    """Number of critics."""
    matmul_precision: MatmulPrecision = "auto"
    """CPU matrix products: exact as PyTorch has them, auto as exact but fast, or bfloat16."""
    bfloat16: bool = False
    """Also time compiled updates with products of bfloat16 factors."""


def main(config: UpdateBenchmarkConfig) -> None:
    """Measure all losses in turns."""
    ratios = {
        "eager / compiled": ("eager_ms", "compiled_ms"),
        "compiled / products": ("compiled_ms", "products_ms"),
        "compiled / bfloat16": ("compiled_ms", "bfloat16_ms"),
    }
    run_benchmark(config, partial(measure, config), partial(medians, by=["loss"], ratios=ratios))


def measure(config: UpdateBenchmarkConfig) -> pd.DataFrame:
    """One row for each loss and round, in milliseconds a call."""
    contestants = {
        f"{name} {kind}": contestant
        for name in config.losses
        for kind, contestant in make_contestants(name, config).items()
    }
    rounds = config.take_turns(contestants)
    parts = [
        rounds.filter(regex=f"^{name} |round").rename(columns=lambda column: column.split(" ")[-1])
        for name in config.losses
    ]
    return pd.concat(parts, keys=config.losses, names=["loss", None]).reset_index("loss")


def make_contestants(
    name: LossName, config: UpdateBenchmarkConfig
) -> dict[str, Callable[[], object]]:
    """The update uncompiled, the update compiled, its matrix products; rounded ones if asked for.

    The keys are the columns of their times.
    """
    batch = random_batch(name, config.batch_size)

    def update(precision: MatmulPrecision, compile_from: int | None) -> Update:
        options = UpdateConfig(matmul_precision=precision)
        return make_update(make_loss(name, config), options, compile_from=compile_from)

    eager = update(config.matmul_precision, None)
    recording = record_gradients(eager, batch)
    if config.matmul_precision == "bfloat16":
        round_to_bf16(recording.graph)
    contestants = {
        "eager_ms": partial(eager, batch),
        "compiled_ms": partial(update(config.matmul_precision, 1), batch),
        "products_ms": make_products(recording, config.matmul_precision),
    }
    if config.bfloat16:
        contestants["bfloat16_ms"] = partial(update("bfloat16", 1), batch)
    return contestants


def make_loss(name: LossName, config: UpdateBenchmarkConfig) -> LossModule:
    """A loss with networks as the recipes make them; TorchRL's with networks as its users do."""
    if name == "torchrl":
        sizes = torchrl_losses.Sizes(
            config.batch_size, tuple(config.num_cells), OBSERVATION_DIM, ACTION_DIM, NUM_ACTIONS
        )
        return SACLoss(
            torchrl_losses.gaussian(sizes),
            torchrl_losses.critic(sizes),
            num_qvalue_nets=config.num_qvalue_nets,
            loss_function="l2",
            target_entropy=-float(ACTION_DIM),
        )
    nets = {"num_qvalue_nets": config.num_qvalue_nets, "diagnostics": True}
    sizes = {"observation_dim": OBSERVATION_DIM, "num_cells": config.num_cells}
    if name == "discrete":
        return DiscreteSACLoss(action_value_critic(**sizes, num_actions=NUM_ACTIONS), **nets)
    bounds = {"action_low": [-1.0] * ACTION_DIM, "action_high": [1.0] * ACTION_DIM}
    if name == "continuous":
        values = state_action_critic(**sizes, action_dim=ACTION_DIM)
        return ContinuousSACLoss(tanh_gaussian_actor(**sizes, **bounds), values, **nets)
    actor = tanh_gaussian_actor(**sizes, **bounds, action_key=("action", "continuous"))
    values = hybrid_critic(**sizes, action_dim=ACTION_DIM, num_actions=NUM_ACTIONS)
    return HybridSACLoss(actor, values, **nets)


def random_batch(name: LossName, size: int) -> TensorDict:
    """Transitions of random numbers for a loss, none of which ends an episode."""
    continuous = 2 * torch.rand(size, ACTION_DIM) - 1
    discrete = torch.randint(NUM_ACTIONS, (size,))
    actions = {
        "continuous": continuous,
        "torchrl": continuous,
        "discrete": discrete,
        "hybrid": TensorDict(continuous=continuous, discrete=discrete, batch_size=[size]),
    }
    return transitions(*torch.randn(2, size, OBSERVATION_DIM), action=actions[name])


def transitions(
    observation: Tensor, following: Tensor, *, action: Tensor | TensorDict
) -> TensorDict:
    """Transitions ``[B]`` of random rewards, none of which ends an episode.

    Args:
        observation: ``[B, *]``.
        following: the next observation, ``[B, *]``.
        action: ``[B, *]``.
    """
    step = after_a_step(following, torch.zeros(len(observation), 1, dtype=torch.bool))
    return TensorDict(observation=observation, action=action, next=step, batch_size=step.batch_size)


def make_update(
    loss_module: LossModule, config: UpdateConfig, *, compile_from: int | None = None
) -> Update:
    """The update of the recipes of soft actor-critic.

    Args:
        loss_module: a loss of :func:`make_loss`.
        config: learning rates, order, periods.
        compile_from: count of the first update that is compiled; None for no update.
    """
    groups = parameter_groups(loss_module)
    optimizers = {
        name: Adam(group, lr=getattr(config, f"lr_{name}"), fused=True)
        for name, group in groups.items()
    }
    return Update(
        loss_module,
        optimizers,
        update_steps(config, groups),
        target_updater=SoftUpdate(loss_module, tau=config.target_update_tau),
        compile_from=compile_from,
        matmul_precision=config.matmul_precision,
        cuda_graph=config.cuda_graph,
    )


def record_gradients(update: Update, batch: TensorDict) -> Recording:
    """The graph of an update's losses and their gradients, which is what it compiles."""
    parameters = {
        name: [parameter for group in optimizer.param_groups for parameter in group["params"]]
        for name, optimizer in update.optimizers.items()
    }
    gradients = LossGradients(update.loss_module, parameters)
    due = Pass(tuple(step for step in update.steps if isinstance(step, LossStep)))

    def run() -> list[Tensor | None]:
        losses = gradients(batch.copy(), due)
        found = [each for step in losses.gradients.values() for each in step.values()]
        values = [value for each in found for value in (*each.values, each.norm)]
        return [*losses.scalars.values(), losses.watched, *values]

    tensors = [*update.loss_module.parameters(), *update.loss_module.buffers()]
    return record(run, [*tensors, *batch.values(True, True)])


def make_products(recording: Recording, kernels: MatmulPrecision) -> Callable[[], None]:
    """A function that makes the matrix products of a graph, of random numbers, and nothing else.

    Operands have the shapes and strides of the graph's; results go to memory that is there.
    """
    calls = []
    for node in recording.graph.graph.nodes:
        if node.target in _PRODUCTS:
            left, right = (_random_operand(operand) for operand in node.args[-2:])
            product = _PRODUCTS[node.target]
            calls.append(partial(product, left, right, out=product(left, right)))

    def run() -> None:
        with torch.no_grad(), set_matmul_precision(kernels):
            for call in calls:
                call()

    return run


def _random_operand(node: Node) -> Tensor:
    """Random numbers with the shape, the strides and the type of what a node computes."""
    if "val" not in node.meta:  # a factor that is rounded
        return _random_operand(node.args[0]).bfloat16()
    like = node.meta["val"]
    last = sum((size - 1) * step for size, step in zip(like.shape, like.stride(), strict=True))
    return torch.randn(last + 1, dtype=like.dtype).as_strided(like.shape, like.stride())


if __name__ == "__main__":
    run_recipe(main, UpdateBenchmarkConfig)
