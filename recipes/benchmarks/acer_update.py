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

from dataclasses import dataclass, field
from functools import partial

import pandas as pd
import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from timing import UpdateTimingConfig, after_a_step, run_cases
from torch.optim import RMSprop
from torchrl.objectives import LossModule, SoftUpdate

from rlkit_sac import modules
from rlkit_sac.config import ACERUpdateConfig, PositiveInt
from rlkit_sac.objectives import ACERLoss
from rlkit_sac.runs import run_recipe
from rlkit_sac.updates import LossStep, TargetStep, Update

LOSSES = ("loss_actor", "loss_critic", "loss_entropy")
OBSERVATION_DIM = {"discrete": 4, "continuous": 3}


@dataclass
class ACERTimingConfig(UpdateTimingConfig):
    """The sizes of an update, and how often it is timed."""

    segments: list[PositiveInt] = field(default_factory=lambda: [8, 32, 128])
    """Numbers of segments B of an update."""
    t_max: PositiveInt = 20
    """Steps T of a segment."""
    num_cells: list[PositiveInt] = field(default_factory=lambda: [64, 64])
    """Widths of the hidden layers of actor and critic."""


def main(config: ACERTimingConfig) -> None:
    """Measure both kinds of actions at all sizes."""
    cases = [
        {"actions": kind, "segments": count}
        for kind in OBSERVATION_DIM
        for count in config.segments
    ]
    run_cases(config, cases, measure, ratios={"speedup": ("update_ms", "compiled_ms")})


def measure(actions: str, segments: int, config: ACERTimingConfig) -> pd.DataFrame:
    """Time one kind of actions at one size; one row for each round, in milliseconds a call."""
    eager, compiled = (
        make_update(make_loss(actions, config), compile_from=first) for first in (None, 1)
    )
    loss = eager.loss_module
    batch = random_segments(loss.policy(), actions, segments, config.t_max)
    contestants = {
        "loss_ms": partial(loss_and_gradients, loss, batch),
        "update_ms": partial(eager, batch),
        "compiled_ms": partial(compiled, batch),
    }
    return config.take_turns(contestants)


def make_loss(kind: str, config: ACERTimingConfig) -> ACERLoss:
    """The loss with networks as the recipe makes them."""
    inputs = OBSERVATION_DIM[kind]
    layers = {"num_cells": config.num_cells, "activation": "tanh"}
    if kind == "discrete":
        return ACERLoss(
            modules.categorical_actor(inputs, 2, **layers),
            modules.action_value_critic(inputs, 2, **layers),
        )
    critic = modules.StochasticDuelingNetwork(
        modules.state_critic(inputs, **layers), modules.state_action_critic(inputs, 1, **layers)
    )
    return ACERLoss(modules.gaussian_actor(inputs, 1, **layers), critic)


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
    ends = torch.rand(*shape, 1) < 0.05
    batch["next"] = after_a_step(states["observation"].roll(-1, 1), ends)
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


if __name__ == "__main__":
    run_recipe(main, ACERTimingConfig)
