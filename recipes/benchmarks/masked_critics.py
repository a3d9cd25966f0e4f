"""The time of one update of hybrid soft actor-critic whose critics have a mask.

    python recipes/benchmarks/masked_critics.py
    python recipes/benchmarks/masked_critics.py --num_actions '[3, 16]' --output masked.csv

Each of K discrete actions has one parameter. An update is all of it: losses, gradients, Adam, the
move of the targets, in one compiled graph. Contestants are critics without a mask, with one, with
one and the action in the last hidden layer, and nothing but the matrix products of K passes of
critics that read the action first, on the same kernels: K passes for states and next states, and
one for the stored action. All take turns, so that they meet the same load of the machine; each
round gives ratios, and the table shows their medians with 95 % bootstrap intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pandas as pd
import torch
from losses import Task, UpdateTimingConfig, make_loss, make_update, random_batch
from timing import describe_machine, load_averages, median, refuse_fallback, take_turns
from update import make_products, record_gradients

from rlkit_sac.config import PositiveInt, UpdateConfig
from rlkit_sac.runs import run_recipe

OBSERVATION_DIM = 9


@dataclass
class MaskedTimingConfig(UpdateTimingConfig):
    """What is measured, and how often."""

    num_actions: list[PositiveInt] = field(default_factory=lambda: [3, 16, 64])
    """Numbers K of discrete actions."""
    compiled: bool = True
    """Whether updates are compiled."""


def main(config: MaskedTimingConfig) -> None:
    """Measure, print a table, and write the rounds if asked to."""
    torch.set_num_threads(config.num_threads)
    torch.manual_seed(0)
    refuse_fallback()
    print(describe_machine(config.num_threads))
    print(f"load averages at the start: {load_averages()}")
    rounds = pd.concat([measure(count, config) for count in config.num_actions], ignore_index=True)
    print(summary(rounds).to_string(index=False, float_format="{:.2f}".format))
    print(f"load averages at the end: {load_averages()}")
    if config.output is not None:
        rounds.to_csv(config.output, index=False)


def measure(num_actions: int, config: MaskedTimingConfig) -> pd.DataFrame:
    """Time all contestants in turns; one row for each round, in milliseconds an update."""
    task = Task(f"K = {num_actions}", OBSERVATION_DIM, num_actions, num_actions)
    batch = random_batch("hybrid", task, config.batch_size)
    mask = {"parameter_mask": torch.eye(num_actions).tolist()}
    kinds = {
        "unmasked": (mask, {}),
        "masked": (mask | {"mask_critics": True}, {}),
        "masked_last": (mask | {"mask_critics": True}, {"action_layer": "last"}),
    }
    contestants: dict[str, Callable[[], object]] = {}
    for name, (options, critic) in kinds.items():
        loss_module = make_loss("hybrid", task, config, critic=critic, **options)
        update = make_update(
            loss_module, UpdateConfig(), compile_from=2 if config.compiled else None
        )
        contestants[f"{name}_ms"] = partial(update, batch)
    # Without batched products of several critics, each evaluation is K passes through a critic.
    passes = make_loss("hybrid", task, config, **kinds["masked"][0], deactivate_vmap=True)
    recording = record_gradients(make_update(passes, UpdateConfig()), batch)
    contestants["products_ms"] = make_products(recording, UpdateConfig().matmul_precision)
    for contestant in contestants.values():
        for _ in range(config.warm_up):
            contestant()
    rounds = take_turns(contestants, rounds=config.rounds, calls=config.updates)
    rounds.insert(0, "num_actions", num_actions)
    return rounds


def summary(rounds: pd.DataFrame) -> pd.DataFrame:
    """Median times of an update, and medians of ratios with their intervals, for each K."""
    rows = []
    for num_actions, group in rounds.groupby("num_actions", sort=False):
        times = {name: group[name].median() for name in group if name.endswith("_ms")}
        ratios = {
            "masked / unmasked": median(group["masked_ms"] / group["unmasked_ms"]),
            "masked_last / unmasked": median(group["masked_last_ms"] / group["unmasked_ms"]),
            "masked / products": median(group["masked_ms"] / group["products_ms"]),
        }
        rows.append({"num_actions": num_actions, **times, **ratios})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    run_recipe(main, MaskedTimingConfig)
