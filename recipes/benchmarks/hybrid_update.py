"""The time of one update of hybrid soft actor-critic, beside one of continuous soft actor-critic.

    python recipes/benchmarks/hybrid_update.py
    python recipes/benchmarks/hybrid_update.py --rounds 200 --output hybrid_update.csv

Both have the same actor and, but for the number of outputs, the same critics, and batches of the
same sizes. An update is all of it: losses, gradients, Adam, the move of the targets. The two take
turns, so that both meet the same load of the machine; each round gives a ratio, and the table shows
the quartiles.
"""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from tensordict import TensorDict

from rlkit_sac.modules import hybrid_critic, state_action_critic, tanh_gaussian_actor
from rlkit_sac.objectives import ContinuousSACLoss, HybridSACLoss
from rlkit_sac.training import PositiveInt, Update, UpdateConfig, make_update, run_recipe


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


TASKS = (Task("HalfCheetah", 17, 6, 3), Task("Platform", 9, 3, 3))


@dataclass
class HybridUpdateConfig:
    """What is measured, and how often."""

    num_cells: list[PositiveInt] = field(default_factory=lambda: [256, 256])
    """Widths of the hidden layers of actor and critics."""
    batch_size: PositiveInt = 256
    """Transitions of an update."""
    num_qvalue_nets: PositiveInt = 2
    """Number of critics."""
    rounds: PositiveInt = 60
    """Rounds, in which each algorithm has one turn."""
    updates: PositiveInt = 5
    """Updates of a turn."""
    warm_up: PositiveInt = 10
    """Updates of each algorithm before the first turn."""
    num_threads: PositiveInt = 1
    """PyTorch's CPU threads."""
    output: str | None = None
    """CSV file for the times of each round; null writes none."""


def main(config: HybridUpdateConfig) -> None:
    """Measure at the sizes of every task, print a table, and write the rounds if asked to."""
    torch.set_num_threads(config.num_threads)
    torch.manual_seed(0)
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPU cores"
    versions = f"Python {platform.python_version()}, PyTorch {torch.__version__}"
    print(f"{machine}; {versions}; threads: {config.num_threads}")
    print(f"load averages at the start: {load_averages()}")
    rounds = pd.concat([measure(task, config) for task in TASKS], ignore_index=True)
    print(summary(rounds).to_string(index=False, float_format="{:.3f}".format))
    print(f"load averages at the end: {load_averages()}")
    if config.output is not None:
        rounds.to_csv(config.output, index=False)


def measure(task: Task, config: HybridUpdateConfig) -> pd.DataFrame:
    """Time both algorithms in turns; one row for each round, in milliseconds an update."""
    makers = {"continuous": continuous_update, "hybrid": hybrid_update}
    updates = {name: make(task, config) for name, make in makers.items()}
    batches = {name: random_batch(task, config, name) for name in updates}
    for name, update in updates.items():
        for _ in range(config.warm_up):
            update(batches[name])
    rows = []
    for index in range(config.rounds):
        row: dict[str, str | int | float] = {"task": task.name, "round": index}
        # Who goes first may find colder caches: that alternates, too.
        for name in sorted(updates, reverse=index % 2 == 1):
            start = time.perf_counter()
            for _ in range(config.updates):
                updates[name](batches[name])
            row[f"{name}_ms"] = 1e3 * (time.perf_counter() - start) / config.updates
        rows.append(row)
    columns = ["task", "round", "continuous_ms", "hybrid_ms"]
    rounds = pd.DataFrame(rows, columns=columns)
    rounds["ratio"] = rounds["hybrid_ms"] / rounds["continuous_ms"]
    return rounds


def continuous_update(task: Task, config: HybridUpdateConfig) -> Update:
    """One update of continuous soft actor-critic, as its recipe makes it."""
    bounds = [-1.0] * task.action_dim, [1.0] * task.action_dim
    loss_module = ContinuousSACLoss(
        tanh_gaussian_actor(task.observation_dim, *bounds, num_cells=config.num_cells),
        state_action_critic(task.observation_dim, task.action_dim, num_cells=config.num_cells),
        num_qvalue_nets=config.num_qvalue_nets,
        diagnostics=True,
    )
    return make_update(loss_module, UpdateConfig())


def hybrid_update(task: Task, config: HybridUpdateConfig) -> Update:
    """One update of hybrid soft actor-critic, as its recipe makes it."""
    bounds = [-1.0] * task.action_dim, [1.0] * task.action_dim
    actor = tanh_gaussian_actor(
        task.observation_dim,
        *bounds,
        num_cells=config.num_cells,
        action_key=("action", "continuous"),
    )
    critic = hybrid_critic(
        task.observation_dim, task.action_dim, task.num_actions, num_cells=config.num_cells
    )
    loss_module = HybridSACLoss(
        actor, critic, num_qvalue_nets=config.num_qvalue_nets, diagnostics=True
    )
    return make_update(loss_module, UpdateConfig())


def random_batch(task: Task, config: HybridUpdateConfig, algorithm: str) -> TensorDict:
    """Transitions of random numbers, none of which ends an episode."""
    size = config.batch_size
    continuous = 2 * torch.rand(size, task.action_dim) - 1
    discrete = torch.randint(task.num_actions, (size,))
    both = TensorDict(continuous=continuous, discrete=discrete, batch_size=[size])
    return TensorDict(
        observation=torch.randn(size, task.observation_dim),
        action=both if algorithm == "hybrid" else continuous,
        next=TensorDict(
            observation=torch.randn(size, task.observation_dim),
            reward=torch.randn(size, 1),
            done=torch.zeros(size, 1, dtype=torch.bool),
            terminated=torch.zeros(size, 1, dtype=torch.bool),
            batch_size=[size],
        ),
        batch_size=[size],
    )


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


def load_averages() -> str:
    """Processes that ran or waited over the last 1, 5 and 15 minutes, as in /proc/loadavg."""
    return " ".join(f"{average:.2f}" for average in os.getloadavg())


if __name__ == "__main__":
    run_recipe(main, HybridUpdateConfig)
