"""The time of one update of actor-critic with experience replay, at several numbers of segments.

    python recipes/benchmarks/acer_update.py
    python recipes/benchmarks/acer_update.py --segments '[8, 32]' --output acer_update.csv

With the sizes of CartPole-v1 (two actions, trust region on) and of Pendulum-v1 (one dimension,
stochastic dueling network), on replayed segments: the loss with its gradients, the whole update,
which clips them, steps and moves the average policy, and the same in one compiled graph. All take
turns, so that they meet the same load of the machine; the table shows medians over the rounds, and
of the ratios of the uncompiled to the compiled update 95 % bootstrap intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pandas as pd
import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from timing import describe_machine, load_averages, median, refuse_fallback, take_turns
from torch.optim import RMSprop
from torchrl.objectives import LossModule, SoftUpdate

from rlkit_sac.config import ACERUpdateConfig, PositiveInt
from rlkit_sac.modules import (
    StochasticDuelingNetwork,
    action_value_critic,
    categorical_actor,
    gaussian_actor,
    state_action_critic,
    state_critic,
)
from rlkit_sac.objectives import ACERLoss
from rlkit_sac.runs import run_recipe
from rlkit_sac.updates import LossStep, TargetStep, Update

LOSSES = ("loss_actor", "loss_critic", "loss_entropy")
OBSERVATION_DIM = {"discrete": 4, "continuous": 3}


@dataclass
class ACERTimingConfig:
    """The sizes of an update, and how often it is timed."""

    segments: list[PositiveInt] = field(default_factory=lambda: [8, 32, 128])
    """Numbers of segments B of an update."""
    t_max: PositiveInt = 20
    """Steps T of a segment."""
    num_cells: list[PositiveInt] = field(default_factory=lambda: [64, 64])
    """Widths of the hidden layers of actor and critic."""
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


def main(config: ACERTimingConfig) -> None:
    """Measure, print a table, and write the rounds if asked to."""
    torch.set_num_threads(config.num_threads)
    torch.manual_seed(0)
    refuse_fallback()
    print(describe_machine(config.num_threads))
    print(f"load averages at the start: {load_averages()}")
    cases = [(kind, count) for kind in OBSERVATION_DIM for count in config.segments]
    rounds = pd.concat([measure(*case, config) for case in cases], ignore_index=True)
    print(summary(rounds).to_string(index=False, float_format="{:.2f}".format))
    print(f"load averages at the end: {load_averages()}")
    if config.output is not None:
        rounds.to_csv(config.output, index=False)


def measure(kind: str, segments: int, config: ACERTimingConfig) -> pd.DataFrame:
    """Time one kind of actions at one size; one row for each round, in milliseconds a call."""
    eager, compiled = (
        make_update(make_loss(kind, config), compile_from=first) for first in (None, 1)
    )
    loss = eager.loss_module
    batch = random_segments(loss.policy(), kind, segments, config.t_max)
    contestants: dict[str, Callable[[], object]] = {
        "loss_ms": partial(loss_and_gradients, loss, batch),
        "update_ms": partial(eager, batch),
        "compiled_ms": partial(compiled, batch),
    }
    for contestant in contestants.values():
        for _ in range(config.warm_up):
            contestant()
    rounds = take_turns(contestants, rounds=config.rounds, calls=config.updates)
    rounds.insert(0, "segments", segments)
    rounds.insert(0, "actions", kind)
    return rounds


def make_loss(kind: str, config: ACERTimingConfig) -> ACERLoss:
    """The loss with networks as the recipe makes them."""
    inputs = OBSERVATION_DIM[kind]
    layers = {"num_cells": config.num_cells, "activation": "tanh"}
    if kind == "discrete":
        return ACERLoss(
            categorical_actor(inputs, 2, **layers), action_value_critic(inputs, 2, **layers)
        )
    critic = StochasticDuelingNetwork(
        state_critic(inputs, **layers), state_action_critic(inputs, 1, **layers)
    )
    return ACERLoss(gaussian_actor(inputs, 1, **layers), critic)


def make_update(loss: ACERLoss, *, compile_from: int | None) -> Update:
    """The update of the recipe, by its default options."""
    options = ACERUpdateConfig()
    return Update(
        loss,
        {"all": RMSprop(loss.parameters(), options.lr, options.rmsprop_alpha, options.rmsprop_eps)},
        [LossStep(LOSSES, ("all",)), TargetStep()],
        target_updater=SoftUpdate(loss, tau=options.target_update_tau),
        max_grad_norm=options.max_grad_norm,
        compile_from=compile_from,
    )


def random_segments(
    policy: TensorDictModuleBase, kind: str, segments: int, t_max: int
) -> TensorDictBase:
    """Segments ``[B, T]`` with actions of the policy, one step in twenty being the last."""
    shape, inputs = [segments, t_max], OBSERVATION_DIM[kind]
    states = TensorDict(observation=torch.randn(*shape, inputs), batch_size=shape)
    with torch.no_grad():
        batch = policy(states)
    ended = torch.rand(*shape, 1) < 0.05
    batch["next"] = TensorDict(
        observation=torch.randn(*shape, inputs),
        reward=torch.randn(*shape, 1),
        done=ended,
        terminated=ended.clone(),
        batch_size=shape,
    )
    batch["collector", "mask"] = torch.ones(*shape, dtype=torch.bool)
    return batch


def loss_and_gradients(loss: LossModule, batch: TensorDictBase) -> None:
    """The losses of a batch, and their gradients into ``grad``."""
    for parameter in loss.parameters():
        parameter.grad = None
    losses = loss(batch)
    total = sum(losses[name] for name in LOSSES)
    assert isinstance(total, torch.Tensor)
    total.backward()


def summary(rounds: pd.DataFrame) -> pd.DataFrame:
    """Median times, and how many times as fast the compiled update is, in each case."""
    rows = []
    for (kind, segments), group in rounds.groupby(["actions", "segments"], sort=False):
        times = group[["loss_ms", "update_ms", "compiled_ms"]].median()
        speedup = str(median(group["update_ms"] / group["compiled_ms"]))
        rows.append({"actions": kind, "segments": segments, **times, "speedup": speedup})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    run_recipe(main, ACERTimingConfig)
