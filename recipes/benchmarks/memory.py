"""The time of memories: rows beside ``torch.nn.GRU``, acting, and updates beside TorchRL's.

    python recipes/benchmarks/memory.py
    python recipes/benchmarks/memory.py --steps 8 --rounds 60 --output memory.csv

*rows*: forward and backward pass of R memories over rows with resets, against as many ``nn.GRU``
without. *acting*: a recorded policy with a memory for one environment, against one without.
*update*: an update of recurrent soft actor-critic, losses, gradients, Adam and targets, uncompiled,
against TorchRL's ``SACLoss`` with its own ``GRUModule``, in Python since PyTorch's cannot be
vmapped; its targets differ, see docs/memory.md. Pairs take turns, so that they meet the same load
of the machine; each round gives a ratio, and the table shows their medians with 95 % bootstrap
intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import pandas as pd
import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential
from timing import describe_machine, load_averages, median, take_turns
from torch import nn
from torch.optim import Adam
from torchrl.modules import MLP, GRUModule, ProbabilisticActor, TanhNormal
from torchrl.objectives import LossModule, SACLoss, SoftUpdate

from rlkit_sac.config import PositiveInt
from rlkit_sac.data.collect.recorded_policy import RecordedPolicy
from rlkit_sac.functional.memory import LayerWeights, recurrent_rows
from rlkit_sac.modules import MemoryOptions, state_action_critic, tanh_gaussian_actor
from rlkit_sac.objectives import ContinuousSACLoss
from rlkit_sac.runs import run_recipe
from rlkit_sac.updates import LossStep, TargetStep, Update

OBSERVATION_DIM, ACTION_DIM, NUM_CRITICS = 17, 6, 2


@dataclass
class MemoryTimingConfig:
    """What is measured, and how often."""

    rows: PositiveInt = 32
    """Rows of a batch."""
    steps: PositiveInt = 50
    """Steps of a row."""
    size: PositiveInt = 128
    """Units of a memory, and widths of the two hidden layers after it."""
    rounds: PositiveInt = 30
    """Rounds, in which each has one turn."""
    calls: PositiveInt = 5
    """Calls of a turn; of acting a hundred times as many."""
    num_threads: PositiveInt = 1
    """PyTorch's CPU threads."""
    output: str | None = None
    """CSV file for the times of each round; null writes none."""


Contestants = Mapping[str, Callable[[], object]]


def main(config: MemoryTimingConfig) -> None:
    """Measure, print a table, and write the rounds if asked to."""
    torch.set_num_threads(config.num_threads)
    torch.manual_seed(0)
    print(describe_machine(config.num_threads))
    print(f"load averages at the start: {load_averages()}")
    found, table = [], []
    for name, make, factor in (("rows", rows, 1), ("acting", acting, 100), ("update", updates, 1)):
        contestants = make(config)
        for call in contestants.values():
            call()
        rounds = take_turns(contestants, rounds=config.rounds, calls=config.calls * factor)
        rounds.columns = ["round", "ours_ms", "other_ms"]
        rounds.insert(0, "case", name)
        found.append(rounds)
        times = rounds[["ours_ms", "other_ms"]].median()
        ratio = str(median(rounds["ours_ms"] / rounds["other_ms"]))
        table.append({"case": name, "beside": list(contestants)[1], **times, "ratio": ratio})
    print(pd.DataFrame(table).to_string(index=False, float_format="{:.3f}".format))
    print(f"load averages at the end: {load_averages()}")
    if config.output is not None:
        pd.concat(found, ignore_index=True).to_csv(config.output, index=False)


def rows(config: MemoryTimingConfig) -> Contestants:
    """Forward and backward passes over rows."""
    count, steps, size = config.rows, config.steps, config.size
    grus = [nn.GRU(size, size, batch_first=True) for _ in range(NUM_CRITICS)]
    stacked = (
        torch.stack([getattr(gru, f"{name}_l0") for gru in grus]).detach().requires_grad_()
        for name in LayerWeights._fields
    )
    weights, inputs = LayerWeights(*stacked), torch.randn(count, steps, size, requires_grad=True)
    reset, start = torch.rand(count, steps) < 0.02, torch.zeros(NUM_CRITICS, count, 1, size)

    def ours() -> None:
        each = inputs.expand(NUM_CRITICS, *inputs.shape)
        recurrent_rows(each, (start,), reset, [weights])[0].sum().backward()

    def other() -> None:
        sum(gru(inputs)[0].sum() for gru in grus).backward()

    return {"ours": ours, f"{NUM_CRITICS} x nn.GRU": other}


def acting(config: MemoryTimingConfig) -> Contestants:
    """One step of a policy."""
    entries = {
        "observation": torch.randn(OBSERVATION_DIM),
        "prev_action": torch.zeros(ACTION_DIM),
        "is_init": torch.tensor([False]),
        "actor_state": torch.zeros(1, config.size),
    }
    calls = []
    for memory in (memory_options(config), None):
        policy = RecordedPolicy(make_actor(config, memory), ())
        policy(entries)
        calls.append(partial(policy, entries, unchanged=True))
    return {"ours": calls[0], "without memory": calls[1]}


def updates(config: MemoryTimingConfig) -> Contestants:
    """Updates of recurrent soft actor-critic."""
    memory = memory_options(config)
    critic = state_action_critic(
        OBSERVATION_DIM, ACTION_DIM, num_cells=[config.size] * 2, memory=memory
    )
    ours = ContinuousSACLoss(make_actor(config, memory), critic)
    losses = {"ours": ours, "TorchRL's SACLoss": torchrl_loss(config)}
    batch = make_batch(config)
    return {
        name: partial(lambda update: update(batch.copy()), make_update(loss))
        for name, loss in losses.items()
    }


def memory_options(config: MemoryTimingConfig) -> MemoryOptions:
    """A gated recurrent unit that reads the previous action too."""
    return {"kind": "gru", "size": config.size, "action_dim": ACTION_DIM}


def make_actor(config: MemoryTimingConfig, memory: MemoryOptions | None) -> ProbabilisticActor:
    """The package's actor."""
    low, high = [-1.0] * ACTION_DIM, [1.0] * ACTION_DIM
    return tanh_gaussian_actor(
        OBSERVATION_DIM, low, high, num_cells=[config.size] * 2, memory=memory
    )


def torchrl_loss(config: MemoryTimingConfig) -> SACLoss:
    """TorchRL's loss with networks of the same sizes."""
    size, width = config.size, OBSERVATION_DIM + ACTION_DIM

    def network(head: nn.Module, inputs: list[str], outputs: list[str]) -> TensorDictSequential:
        join = TensorDictModule(
            lambda *parts: torch.cat(parts, -1), ["observation", "prev_action"], ["x"]
        )
        state = f"{outputs[0]}_memory"
        gru = GRUModule(
            width,
            size,
            python_based=True,
            in_keys=["x", state],
            out_keys=["h", ("next", state)],
        )
        return TensorDictSequential(join, gru, TensorDictModule(head, inputs, outputs))

    layers = {"num_cells": [size, size], "activation_class": nn.ReLU}
    actor_head = nn.Sequential(
        MLP(in_features=size, out_features=2 * ACTION_DIM, **layers), _LocScale()
    )
    actor = ProbabilisticActor(
        network(actor_head, ["h"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        return_log_prob=True,
    )
    critic_head = MLP(in_features=size + ACTION_DIM, out_features=1, **layers)
    critic = network(critic_head, ["h", "action"], ["state_action_value"])
    loss = SACLoss(actor, critic, num_qvalue_nets=NUM_CRITICS, target_entropy=-float(ACTION_DIM))
    loss.make_value_estimator(gamma=0.99)
    return loss


class _LocScale(nn.Module):
    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        loc, log_scale = features.chunk(2, -1)
        return loc, log_scale.clamp(-20, 2).exp()


def make_update(loss: LossModule) -> Update:
    """The three losses, one optimizer each, and the targets."""
    prefixes = {"actor": "actor_network", "qvalue": "qvalue_network", "alpha": "log_alpha"}
    optimizers = {
        name: Adam([p for key, p in loss.named_parameters() if key.startswith(prefix)], lr=1e-3)
        for name, prefix in prefixes.items()
    }
    losses = tuple(f"loss_{name}" for name in prefixes)
    steps = [LossStep(losses, tuple(prefixes)), TargetStep()]
    return Update(loss, optimizers, steps, target_updater=SoftUpdate(loss, tau=0.005))


def make_batch(config: MemoryTimingConfig) -> TensorDictBase:
    """Random rows of single episodes, with what either loss reads."""
    shape = config.rows, config.steps

    def state() -> dict[str, torch.Tensor]:
        return {
            "observation": torch.randn(*shape, OBSERVATION_DIM),
            "prev_action": torch.rand(*shape, ACTION_DIM),
            "is_init": torch.zeros(*shape, 1, dtype=torch.bool),
        }

    batch = TensorDict(state(), batch_size=shape)
    flags = dict.fromkeys(("done", "terminated"), torch.zeros(*shape, 1, dtype=torch.bool))
    batch["action"] = torch.rand(*shape, ACTION_DIM)
    batch["next"] = TensorDict(
        state() | flags | {"reward": torch.randn(*shape, 1)}, batch_size=shape
    )
    return batch


if __name__ == "__main__":
    run_recipe(main, MemoryTimingConfig)
