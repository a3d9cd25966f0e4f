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

import pandas as pd
import torch
from losses import (
    HALF_CHEETAH,
    LOSS_NAMES,
    LossName,
    UpdateTimingConfig,
    make_loss,
    make_update,
    random_batch,
)
from tensordict import TensorDict
from timing import describe_machine, load_averages, median, refuse_fallback, take_turns
from torch import Tensor
from torch.fx import Node

from rlkit_sac.config import UpdateConfig
from rlkit_sac.graph import MatmulPrecision, Recording, record, round_matmuls, set_matmul_precision
from rlkit_sac.runs import run_recipe
from rlkit_sac.updates import LossStep, Update
from rlkit_sac.updates.gradients import LossGradients

KINDS = ("eager", "compiled", "products", "bfloat16")
_PRODUCTS = {
    torch.ops.aten.mm.default: torch.mm,
    torch.ops.aten.addmm.default: torch.mm,
    torch.ops.aten.bmm.default: torch.bmm,
    torch.ops.aten.baddbmm.default: torch.bmm,
}


@dataclass
class UpdateBenchmarkConfig(UpdateTimingConfig):
    """What is measured, and how often."""

    losses: list[LossName] = field(default_factory=lambda: list(LOSS_NAMES))
    """Whose updates; torchrl is TorchRL's SACLoss."""
    matmul_precision: MatmulPrecision = "auto"
    """CPU matrix products: exact as PyTorch has them, auto as exact but fast, or bfloat16."""
    bfloat16: bool = False
    """Also time compiled updates with products of bfloat16 factors."""


def main(config: UpdateBenchmarkConfig) -> None:
    """Measure, print a table, and write the rounds if asked to."""
    torch.set_num_threads(config.num_threads)
    torch.manual_seed(0)
    refuse_fallback()
    print(describe_machine(config.num_threads))
    print(f"load averages at the start: {load_averages()}")
    contestants: dict[str, Callable[[], object]] = {}
    for name in config.losses:
        for kind, contestant in zip(KINDS, make_contestants(name, config), strict=False):
            contestants[f"{name}_{kind}_ms"] = contestant
    for contestant in contestants.values():
        for _ in range(config.warm_up):
            contestant()
    rounds = take_turns(contestants, rounds=config.rounds, calls=config.updates)
    print(summary(rounds, config.losses).to_string(index=False, float_format="{:.2f}".format))
    print(f"load averages at the end: {load_averages()}")
    if config.output is not None:
        rounds.to_csv(config.output, index=False)


def make_contestants(
    name: LossName, config: UpdateBenchmarkConfig
) -> tuple[Callable[[], object], ...]:
    """The update uncompiled, the update compiled, its matrix products, the last if asked for."""
    batch = random_batch(name, HALF_CHEETAH, config.batch_size)
    update_config = UpdateConfig(matmul_precision=config.matmul_precision)
    eager, compiled = (
        make_update(make_loss(name, HALF_CHEETAH, config), update_config, compile_from=first)
        for first in (None, 1)
    )
    recording = record_gradients(eager, batch)
    if config.matmul_precision == "bfloat16":
        round_matmuls(recording.graph)
    products = make_products(recording, config.matmul_precision)
    contestants = partial(eager, batch), partial(compiled, batch), products
    if not config.bfloat16:
        return contestants
    rounded = make_update(
        make_loss(name, HALF_CHEETAH, config),
        UpdateConfig(matmul_precision="bfloat16"),
        compile_from=1,
    )
    return *contestants, partial(rounded, batch)


def record_gradients(update: Update, batch: TensorDict) -> Recording:
    """The graph of an update's losses and their gradients, which is what it compiles."""
    parameters = {
        name: [parameter for group in optimizer.param_groups for parameter in group["params"]]
        for name, optimizer in update.optimizers.items()
    }
    gradients = LossGradients(update.loss_module, parameters)
    steps = [step for step in update.steps if isinstance(step, LossStep)]

    def run() -> list[Tensor | None]:
        losses = gradients(batch.copy(), steps)
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


def summary(rounds: pd.DataFrame, losses: list[LossName]) -> pd.DataFrame:
    """Median times, and medians of the ratios with their intervals, for each loss."""
    rows = []
    for loss in losses:
        times = {
            kind: rounds[column] for kind in KINDS if (column := f"{loss}_{kind}_ms") in rounds
        }
        faster = {}
        if "bfloat16" in times:
            faster["compiled / bfloat16"] = str(median(times["compiled"] / times["bfloat16"]))
        rows.append(
            {
                "loss": loss,
                **{f"{kind}_ms": values.median() for kind, values in times.items()},
                "eager / compiled": str(median(times["eager"] / times["compiled"])),
                "compiled / products": str(median(times["compiled"] / times["products"])),
                **faster,
            }
        )
    return pd.DataFrame(rows)


def _random_operand(node: Node) -> Tensor:
    """Random numbers with the shape, the strides and the type of what a node computes."""
    if "val" not in node.meta:  # a factor that is rounded
        return _random_operand(node.args[0]).bfloat16()
    like = node.meta["val"]
    last = sum((size - 1) * step for size, step in zip(like.shape, like.stride(), strict=True))
    return torch.randn(last + 1, dtype=like.dtype).as_strided(like.shape, like.stride())


if __name__ == "__main__":
    run_recipe(main, UpdateBenchmarkConfig)
