"""The time of an update of TorchRL's losses, uncompiled and compiled.

    python recipes/benchmarks/torchrl_update.py
    python recipes/benchmarks/torchrl_update.py --losses '[SACLoss, DQNLoss]' --output torchrl.csv

An update is all of it: losses, gradients, Adam, the move of the targets. For each loss both ways
take turns, so that they meet the same load of the machine; each round gives a ratio, and the table
shows their median with a 95 % bootstrap interval.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import pandas as pd
import torch
from timing import describe_machine, load_averages, median, refuse_fallback, take_turns
from torchrl_losses import CASES, Sizes, make_update

from rlkit_sac.config import PositiveInt
from rlkit_sac.runs import run_recipe

COMPILED = ("SACLoss", "DiscreteSACLoss", "TD3Loss", "DDPGLoss", "DQNLoss", "CQLLoss", "IQLLoss")
COMPILED += ("REDQLoss", "CrossQLoss", "TQCLoss", "ClipPPOLoss", "A2CLoss")


@dataclass
class TorchRLTimingConfig:
    """What is measured, and how often."""

    losses: list[str] = field(default_factory=lambda: list(COMPILED))
    """Names of TorchRL's loss modules."""
    num_cells: list[PositiveInt] = field(default_factory=lambda: [256, 256])
    """Widths of the hidden layers of all networks."""
    batch_size: PositiveInt = 256
    """Transitions of an update."""
    rounds: PositiveInt = 30
    """Rounds, in which each way has one turn."""
    updates: PositiveInt = 5
    """Updates of a turn."""
    warm_up: PositiveInt = 5
    """Updates of each way before the first turn."""
    num_threads: PositiveInt = 1
    """PyTorch's CPU threads."""
    output: str | None = None
    """CSV file for the times of each round; null writes none."""

    def errors(self) -> list[tuple[str, str]]:
        """List what cannot be measured."""
        unknown = [name for name in self.losses if name not in CASES]
        return [("losses", f"must be among {', '.join(CASES)}, got {unknown}")] if unknown else []


def main(config: TorchRLTimingConfig) -> None:
    """Measure, print a table, and write the rounds if asked to."""
    torch.set_num_threads(config.num_threads)
    refuse_fallback()
    print(describe_machine(config.num_threads))
    print(f"load averages at the start: {load_averages()}")
    rounds = pd.concat([measure(name, config) for name in config.losses], ignore_index=True)
    print(summary(rounds).to_string(index=False, float_format="{:.2f}".format))
    print(f"load averages at the end: {load_averages()}")
    if config.output is not None:
        rounds.to_csv(config.output, index=False)


def measure(name: str, config: TorchRLTimingConfig) -> pd.DataFrame:
    """Time the updates of one loss; one row for each round, in milliseconds an update."""
    # The sizes of HalfCheetah.
    sizes = Sizes(config.batch_size, tuple(config.num_cells), observation_dim=17, action_dim=6)
    torch.manual_seed(0)
    batch = CASES[name].make_batch(sizes)
    contestants = {}
    for kind, compile_from in (("eager_ms", None), ("compiled_ms", 1)):
        update = make_update(name, sizes, compile_from)
        contestants[kind] = partial(lambda update: update(batch.copy()), update)
    for contestant in contestants.values():
        for _ in range(config.warm_up):
            contestant()
    rounds = take_turns(contestants, rounds=config.rounds, calls=config.updates)
    rounds.insert(0, "loss", name)
    return rounds


def summary(rounds: pd.DataFrame) -> pd.DataFrame:
    """Median times, and how many times as fast the compiled update is, for each loss."""
    rows = []
    for name, group in rounds.groupby("loss", sort=False):
        times = group[["eager_ms", "compiled_ms"]].median()
        ratio = str(median(group["eager_ms"] / group["compiled_ms"]))
        rows.append({"loss": name, **times, "eager / compiled": ratio})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    run_recipe(main, TorchRLTimingConfig)
