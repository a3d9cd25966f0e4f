"""The time of an update of TorchRL's losses, uncompiled and compiled.

    python recipes/benchmarks/torchrl_losses.py
    python recipes/benchmarks/torchrl_losses.py --losses '[SACLoss, DQNLoss]' --output torchrl.csv

An update is all of it: losses, gradients, Adam, the move of the targets. For each loss both ways
take turns, so that they meet the same load of the machine; each round gives a ratio, and the table
shows their median with a 95 % bootstrap interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import pandas as pd
import torch
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule
from timing import UpdateTimingConfig, after_a_step, run_cases
from torch import Tensor, nn
from torchrl import modules, objectives
from torchrl.data import Bounded
from torchrl.objectives import LossModule, SoftUpdate

from rlkit_sac.config import PositiveInt
from rlkit_sac.runs import run_recipe
from rlkit_sac.updates import LossStep, TargetStep, Update


@dataclass(frozen=True)
class Sizes:
    """The sizes of networks and batches.

    Args:
        batch_size: transitions.
        num_cells: widths of the hidden layers.
        observation_dim: length of the observation.
        action_dim: number of continuous dimensions.
        num_actions: number of discrete actions.
    """

    batch_size: int
    num_cells: tuple[int, ...]
    observation_dim: int
    action_dim: int
    num_actions: int


class Case(NamedTuple):
    """A loss module and what it is given.

    Attributes:
        make_loss: networks and the loss.
        make_batch: a random batch for it.
        losses: that an update minimizes; empty for all that ``out_keys`` names ``loss_*``.
    """

    make_loss: Callable[[Sizes], LossModule]
    make_batch: Callable[[Sizes], TensorDict]
    losses: tuple[str, ...] = ()


def mlp(sizes: Sizes, inputs: int, outputs: int) -> modules.MLP:
    """A perceptron."""
    cells = {"num_cells": list(sizes.num_cells), "activation_class": nn.ReLU}
    return modules.MLP(in_features=inputs, out_features=outputs, **cells)


def box(sizes: Sizes) -> Bounded:
    """The space of continuous actions."""
    return Bounded(-torch.ones(sizes.action_dim), torch.ones(sizes.action_dim), (sizes.action_dim,))


def gaussian(sizes: Sizes, **options: object) -> modules.ProbabilisticActor:
    """A squashed Gaussian policy."""
    net = mlp(sizes, sizes.observation_dim, 2 * sizes.action_dim)
    body = TensorDictModule(
        nn.Sequential(net, NormalParamExtractor()), ["observation"], ["loc", "scale"]
    )
    return modules.ProbabilisticActor(
        body, ["loc", "scale"], spec=box(sizes), distribution_class=modules.TanhNormal, **options
    )


def deterministic(sizes: Sizes) -> modules.Actor:
    """A policy that gives the action."""
    net = nn.Sequential(mlp(sizes, sizes.observation_dim, sizes.action_dim), nn.Tanh())
    return modules.Actor(net, in_keys=["observation"], spec=box(sizes))


def categorical(sizes: Sizes) -> modules.ProbabilisticActor:
    """A policy of discrete actions."""
    net = mlp(sizes, sizes.observation_dim, sizes.num_actions)
    return modules.ProbabilisticActor(
        TensorDictModule(net, ["observation"], ["logits"]),
        ["logits"],
        distribution_class=modules.OneHotCategorical,
    )


def critic(sizes: Sizes, outputs: int = 1) -> modules.ValueOperator:
    """Values of observation and continuous action."""
    net = mlp(sizes, sizes.observation_dim + sizes.action_dim, outputs)
    return modules.ValueOperator(net, in_keys=["observation", "action"])


def value(sizes: Sizes) -> modules.ValueOperator:
    """The value of an observation."""
    return modules.ValueOperator(mlp(sizes, sizes.observation_dim, 1), in_keys=["observation"])


def action_values(sizes: Sizes, key: str) -> modules.ValueOperator:
    """The values of all discrete actions."""
    net = mlp(sizes, sizes.observation_dim, sizes.num_actions)
    return modules.ValueOperator(net, in_keys=["observation"], out_keys=[key])


def q_actor(sizes: Sizes) -> modules.QValueActor:
    """The greedy policy of action values."""
    net = mlp(sizes, sizes.observation_dim, sizes.num_actions)
    return modules.QValueActor(net, in_keys=["observation"], action_space="one-hot")


def transitions(sizes: Sizes, **entries: Tensor) -> TensorDict:
    """Random transitions with continuous actions; other entries replace or join them."""
    size, ends = sizes.batch_size, torch.rand(sizes.batch_size, 1) < 0.2
    own = {
        "observation": torch.randn(size, sizes.observation_dim),
        "action": 1.8 * torch.rand(size, sizes.action_dim) - 0.9,
        "next": after_a_step(torch.randn(size, sizes.observation_dim), ends),
    }
    return TensorDict({**own, **entries}, batch_size=[size])


def one_hot_transitions(sizes: Sizes) -> TensorDict:
    """Random transitions with discrete actions."""
    index = torch.randint(sizes.num_actions, (sizes.batch_size,))
    return transitions(sizes, action=nn.functional.one_hot(index, sizes.num_actions))


def scored_transitions(sizes: Sizes) -> TensorDict:
    """Random transitions with what policy gradients read."""
    size = sizes.batch_size
    log_prob = 0.1 * torch.randn(size) - 1
    return transitions(
        sizes,
        loc=torch.randn(size, sizes.action_dim),
        scale=torch.rand(size, sizes.action_dim) + 0.5,
        action_log_prob=log_prob,
        sample_log_prob=log_prob.clone(),
        advantage=torch.randn(size, 1),
        value_target=torch.randn(size, 1),
        state_value=torch.randn(size, 1),
    )


def policy_gradient(loss: type[LossModule], **options: object) -> Case:
    """A case of a loss of policy and value."""
    return Case(lambda sizes: loss(gaussian(sizes), value(sizes), **options), scored_transitions)


def actor_critic(
    loss: type[LossModule], actor: Callable[[Sizes], nn.Module] = gaussian, **options: object
) -> Case:
    """A case of a loss of policy and critics."""
    return Case(lambda sizes: loss(actor(sizes), critic(sizes), **options), transitions)


CASES: dict[str, Case] = {
    "SACLoss": actor_critic(objectives.SACLoss),
    "DiscreteSACLoss": Case(
        lambda sizes: objectives.DiscreteSACLoss(
            categorical(sizes),
            action_values(sizes, "action_value"),
            action_space="one-hot",
            num_actions=sizes.num_actions,
        ),
        one_hot_transitions,
    ),
    "TD3Loss": actor_critic(objectives.TD3Loss, deterministic, bounds=(-1.0, 1.0)),
    "DDPGLoss": actor_critic(objectives.DDPGLoss, deterministic),
    "DQNLoss": Case(
        lambda sizes: objectives.DQNLoss(q_actor(sizes), action_space="one-hot"),
        one_hot_transitions,
    ),
    "CQLLoss": actor_critic(objectives.CQLLoss),
    "IQLLoss": Case(
        lambda sizes: objectives.IQLLoss(gaussian(sizes), critic(sizes), value(sizes)), transitions
    ),
    "REDQLoss": actor_critic(objectives.REDQLoss, num_qvalue_nets=4),
    "CrossQLoss": actor_critic(objectives.CrossQLoss),
    "TQCLoss": Case(
        lambda sizes: objectives.TQCLoss(gaussian(sizes), critic(sizes, 8), num_qvalue_nets=2),
        transitions,
    ),
    "ClipPPOLoss": policy_gradient(objectives.ClipPPOLoss),
    "A2CLoss": policy_gradient(objectives.A2CLoss),
}


def make_update(case: Case, sizes: Sizes, compile_from: int | None = None, **adam: float) -> Update:
    """An update of a loss by one Adam optimizer, and by ``SoftUpdate`` if it has targets."""
    loss = case.make_loss(sizes)
    names = case.losses or tuple(key for key in loss.out_keys if key.startswith("loss"))
    parameters = [parameter for parameter in loss.parameters() if parameter.requires_grad]
    targets = any(key.startswith("target_") and "_params" in key for key, _ in loss.named_buffers())
    return Update(
        loss,
        {"all": torch.optim.Adam(parameters, **{"lr": 3e-4, **adam})},
        [LossStep(names, ("all",)), *([TargetStep()] if targets else [])],
        target_updater=SoftUpdate(loss, tau=0.005) if targets else None,
        compile_from=compile_from,
    )


@dataclass
class TorchRLTimingConfig(UpdateTimingConfig):
    """What is measured, and how often."""

    losses: list[str] = field(default_factory=lambda: list(CASES))
    """Names of TorchRL's loss modules."""
    num_cells: list[PositiveInt] = field(default_factory=lambda: [256, 256])
    """Widths of the hidden layers of all networks."""
    batch_size: PositiveInt = 256
    """Transitions of an update."""

    def errors(self) -> list[tuple[str, str]]:
        """List what cannot be measured."""
        unknown = [name for name in self.losses if name not in CASES]
        return [("losses", f"must be among {', '.join(CASES)}, got {unknown}")] if unknown else []


def main(config: TorchRLTimingConfig) -> None:
    """Measure every loss."""
    ratios = {"eager / compiled": ("eager_ms", "compiled_ms")}
    run_cases(config, [{"loss": name} for name in config.losses], measure, ratios=ratios)


def measure(loss: str, config: TorchRLTimingConfig) -> pd.DataFrame:
    """Time the updates of one loss; one row for each round, in milliseconds an update."""
    case = CASES[loss]
    # The sizes of HalfCheetah.
    sizes = Sizes(config.batch_size, tuple(config.num_cells), 17, 6, num_actions=4)
    torch.manual_seed(0)
    batch = case.make_batch(sizes)
    contestants = {}
    for kind, compile_from in (("eager_ms", None), ("compiled_ms", 1)):
        update = make_update(case, sizes, compile_from)
        contestants[kind] = partial(lambda update: update(batch.copy()), update)
    return config.take_turns(contestants)


if __name__ == "__main__":
    run_recipe(main, TorchRLTimingConfig)
