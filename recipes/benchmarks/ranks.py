"""What several learners under torchrun gain: updates of shares of a batch against whole ones.

    torchrun --standalone --nproc-per-node 2 recipes/benchmarks/ranks.py
    torchrun --standalone --nproc-per-node 2 recipes/benchmarks/ranks.py --batch_sizes [8192]

*whole*: rank 0 updates alone with the whole batch, in one compiled graph, while the others wait.
*shares*: each rank takes its share of the batch, and the gradients are averaged in between; the
graph ends with the gradients. *reduce*: the average alone. They take turns, so that they meet the
same load of the machine; each round gives a ratio, and the table shows their medians with 95 %
bootstrap intervals. Each rank has one thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd
import torch
from losses import HALF_CHEETAH, UpdateTimingConfig, make_loss, make_update, random_batch
from timing import describe_machine, load_averages, median, refuse_fallback, take_turns
from torch import distributed

from rlkit_sac.config import PositiveInt, UpdateConfig
from rlkit_sac.runs import run_recipe
from rlkit_sac.runs.ranks import learner_group, num_ranks, process_group, rank
from rlkit_sac.updates import Update


@dataclass
class RanksTimingConfig:
    """What is measured, and how often."""

    batch_sizes: list[PositiveInt] = field(default_factory=lambda: [256, 1024, 4096])
    """Transitions of a whole batch."""
    num_cells: list[PositiveInt] = field(default_factory=lambda: [256, 256])
    """Widths of the hidden layers of actor and critics."""
    rounds: PositiveInt = 20
    """Rounds, in which each has one turn."""
    calls: PositiveInt = 20
    """Updates of a turn."""
    output: str | None = None
    """CSV file for the times of each round; null writes none."""


def main(config: RanksTimingConfig) -> None:
    """Measure, print a table, and write the rounds if asked to."""
    torch.set_num_threads(1)
    refuse_fallback()
    with process_group(torch.device("cpu")):
        print(describe_machine(1))
        print(f"load averages at the start: {load_averages()}")
        found, table = [], []
        for batch_size in config.batch_sizes:
            rounds = measure(batch_size, config)
            rounds.insert(0, "batch_size", batch_size)
            found.append(rounds)
            times = rounds[["whole", "shares", "reduce"]].median()
            row = {"batch": batch_size, **{f"{name} ms": f"{ms:.2f}" for name, ms in times.items()}}
            table.append({**row, "whole / shares": str(median(rounds["whole"] / rounds["shares"]))})
        print(pd.DataFrame(table).to_string(index=False))
        print(f"load averages at the end: {load_averages()}")
        if config.output is not None and rank() == 0:
            pd.concat(found).to_csv(config.output, index=False)


def measure(batch_size: int, config: RanksTimingConfig) -> pd.DataFrame:
    """Time whole updates, those of shares, and the average of the gradients, in turns.

    Args:
        batch_size: of a whole batch.
        config: of the measurement.
    """
    whole, shares = updater(config), updater(config, together=True)
    sizes = batch_size, batch_size // num_ranks()
    batch, share = (random_batch("continuous", HALF_CHEETAH, size) for size in sizes)
    numbers = torch.zeros(sum(p.numel() for p in shares.loss_module.parameters()))

    def alone() -> None:
        if rank() == 0:
            whole(batch)

    contestants = {
        "whole": alone,
        "shares": lambda: shares(share),
        "reduce": lambda: distributed.all_reduce(numbers),
    }
    for call in contestants.values():
        for _ in range(3):
            call()
    turns = []
    for _ in range(config.rounds):
        row = {}
        for name, call in contestants.items():
            distributed.barrier()
            row |= take_turns({name: call}, rounds=1, calls=config.calls).iloc[0].to_dict()
        turns.append(row)
    return pd.DataFrame(turns).drop(columns="round")


def updater(config: RanksTimingConfig, *, together: bool = False) -> Update:
    """Compiled updates of soft actor-critic.

    Args:
        config: of the measurement.
        together: whether all ranks make them together.
    """
    loss_module = make_loss(
        "continuous", HALF_CHEETAH, UpdateTimingConfig(num_cells=config.num_cells)
    )
    group = learner_group() if together else None
    return make_update(loss_module, UpdateConfig(), compile_from=2, group=group)


if __name__ == "__main__":
    run_recipe(main, RanksTimingConfig)
