"""The time of a prioritized sample, beside a uniform one of the same buffer's transitions.

    python recipes/benchmarks/prioritized_replay.py
    python recipes/benchmarks/prioritized_replay.py --capacity 100000 --output replay.csv

Two full buffers hold transitions of HalfCheetah's sizes, one with uniform sampling, one with the
priorities of random errors. Timed are samples, and giving the errors of a batch back as priorities.
All take turns, so that they meet the same load of the machine; each round gives ratios, and the
table shows medians with their intervals.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import torch
from losses import HALF_CHEETAH, random_batch
from timing import describe_machine, load_averages, median, take_turns

from rlkit_sac.config import PositiveInt
from rlkit_sac.data import make_replay_buffer
from rlkit_sac.runs import run_recipe


@dataclass
class ReplayTimingConfig:
    """The sizes of replay, and how often samples are timed."""

    capacity: PositiveInt = 1_000_000
    """Transitions of each buffer."""
    batch_size: PositiveInt = 256
    """Transitions of a sample."""
    rounds: PositiveInt = 60
    """Rounds, in which each contestant has one turn."""
    samples: PositiveInt = 50
    """Samples of a turn."""
    num_threads: PositiveInt = 1
    """PyTorch's CPU threads."""
    output: str | None = None
    """CSV file for the rounds; null for none."""


def main(config: ReplayTimingConfig) -> None:
    """Measure, print a table, and write the rounds if asked to."""
    torch.set_num_threads(config.num_threads)
    torch.manual_seed(0)
    print(describe_machine(config.num_threads))
    print(f"load averages at the start: {load_averages()}")
    rounds = measure(config)
    print(f"median microseconds, {config.capacity:,} transitions, batches of {config.batch_size}")
    print(summary(rounds).to_string(index=False))
    print(f"load averages at the end: {load_averages()}")
    if config.output is not None:
        rounds.to_csv(config.output, index=False)


def measure(config: ReplayTimingConfig) -> pd.DataFrame:
    """Time both ways of sampling in turns; one row for each round, in microseconds a sample."""
    transitions = random_batch("continuous", HALF_CHEETAH, config.batch_size)
    uniform, prioritized = (
        make_replay_buffer(
            transitions[0],
            capacity=config.capacity,
            batch_size=config.batch_size,
            prioritized=prioritized,
        )
        for prioritized in (False, True)
    )
    for replay in (uniform, prioritized):
        while len(replay) < config.capacity:
            replay.extend(transitions)
    errors = torch.rand(config.capacity)
    prioritized.sampler.update_priority(torch.arange(config.capacity), errors)
    # As after an update: each batch has the errors of its transitions.
    batches = [prioritized.sample() for _ in range(100)]
    for batch in batches:
        batch["td_error"] = errors[batch["index"]]

    turn = 0

    def give_back() -> None:
        nonlocal turn
        turn += 1
        prioritized.update_tensordict_priority(batches[turn % len(batches)])

    contestants = {
        "uniform": uniform.sample,
        "prioritized": prioritized.sample,
        "priorities": give_back,
    }
    for contestant in contestants.values():
        for _ in range(config.samples):
            contestant()
    rounds = take_turns(contestants, rounds=config.rounds, calls=config.samples)
    rounds[list(contestants)] *= 1e3
    return rounds.rename(columns={name: f"{name}_us" for name in contestants})


def summary(rounds: pd.DataFrame) -> pd.DataFrame:
    """Median times, and the median of their ratios to a uniform sample with its interval."""
    uniform = rounds["uniform_us"]
    rows = []
    for name in ("uniform_us", "prioritized_us", "priorities_us"):
        row = {"": name.removesuffix("_us"), "us": f"{rounds[name].median():.0f}"}
        rows.append(row | {"ratio": str(median(rounds[name] / uniform))})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    run_recipe(main, ReplayTimingConfig)
