"""The time of one update of hybrid soft actor-critic, beside one of continuous soft actor-critic.

    python recipes/benchmarks/hybrid_update.py
    python recipes/benchmarks/hybrid_update.py --rounds 200 --output hybrid_update.csv

Both have the same actor and, but for the number of outputs, the same critics, and batches of the
same sizes. An update is all of it: losses, gradients, Adam, the move of the targets. The two take
turns, so that both meet the same load of the machine; each round gives a ratio, and the table shows
the quartiles.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import torch
from losses import (
    HALF_CHEETAH,
    PLATFORM,
    Task,
    UpdateTimingConfig,
    make_loss,
    make_update,
    random_batch,
)
from timing import describe_machine, load_averages, take_turns

from rlkit_sac.config import UpdateConfig
from rlkit_sac.runs import run_recipe


def main(config: UpdateTimingConfig) -> None:
    """Measure at the sizes of every task, print a table, and write the rounds if asked to."""
    torch.set_num_threads(config.num_threads)
    torch.manual_seed(0)
    print(describe_machine(config.num_threads))
    print(f"load averages at the start: {load_averages()}")
    tasks = (HALF_CHEETAH, PLATFORM)
    rounds = pd.concat([measure(task, config) for task in tasks], ignore_index=True)
    print(summary(rounds).to_string(index=False, float_format="{:.3f}".format))
    print(f"load averages at the end: {load_averages()}")
    if config.output is not None:
        rounds.to_csv(config.output, index=False)


def measure(task: Task, config: UpdateTimingConfig) -> pd.DataFrame:
    """Time both algorithms in turns; one row for each round, in milliseconds an update."""
    updates = {
        f"{name}_ms": partial(
            make_update(make_loss(name, task, config), UpdateConfig()),
            random_batch(name, task, config.batch_size),
        )
        for name in ("continuous", "hybrid")
    }
    for update in updates.values():
        for _ in range(config.warm_up):
            update()
    rounds = take_turns(updates, rounds=config.rounds, calls=config.updates)
    rounds.insert(0, "task", task.name)
    rounds["ratio"] = rounds["hybrid_ms"] / rounds["continuous_ms"]
    return rounds


def summary(rounds: pd.DataFrame) -> pd.DataFrame:
    """Median times of an update, and the quartiles of the ratios, at the sizes of each task."""
    rows = []
    for task, group in rounds.groupby("task", sort=False):
        low, middle, high = np.quantile(group["ratio"], [0.25, 0.5, 0.75])
        rows.append(
            {
                "task": task,
                "continuous_ms": group["continuous_ms"].median(),
                "hybrid_ms": group["hybrid_ms"].median(),
                "ratio": middle,
                "ratio_q25": low,
                "ratio_q75": high,
            }
        )
    return pd.DataFrame(rows)


if __name__ == "__main__":
    run_recipe(main, UpdateTimingConfig)
