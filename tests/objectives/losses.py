"""The losses of the soft actor-critic family with small networks of the package, and batches."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.data import Bounded
from torchrl.modules import MLP, NormalParamExtractor, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import LossModule

from rlkit_sac.modules import (
    action_value_critic,
    categorical_actor,
    hybrid_critic,
    state_action_critic,
    state_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.objectives import ContinuousSACLoss, DiscreteSACLoss, HybridSACLoss
from tests.objectives.networks import DISCRETE_KINDS, make_data

KINDS = ["continuous", *DISCRETE_KINDS, "value"]

CONTINUOUS, DISCRETE = ("action", "continuous"), ("action", "discrete")
CELLS = {"num_cells": [16]}


def box_actor(**options) -> ProbabilisticActor:
    return tanh_gaussian_actor(4, [-1.0] * 2, [1.0] * 2, **CELLS, **options)


def own_loss(kind: str, reward_dim: int = 1, critic: dict | None = None, **options) -> LossModule:
    """A loss of a kind, whose discrete actions are three and continuous dimensions two."""
    sizes = CELLS | {"reward_dim": reward_dim} | (critic or {})
    if kind == "continuous":
        return ContinuousSACLoss(box_actor(), state_action_critic(4, 2, **sizes), **options)
    if kind == "value":
        critic = state_action_critic(4, 2, **sizes)
        value = state_critic(4, **CELLS, reward_dim=reward_dim)
        return ContinuousSACLoss(box_actor(), critic, value, **options)
    if kind == "hybrid":
        actor = box_actor(action_key=CONTINUOUS)
        return HybridSACLoss(actor, hybrid_critic(4, 2, 3, **sizes), **options)
    actor = categorical_actor(4, 3, **CELLS) if kind == "categorical" else None
    return DiscreteSACLoss(action_value_critic(4, 3, **sizes), actor, **options)


def single(data: TensorDict) -> TensorDict:
    """The batch with its numbers, but not its indices, in single precision."""
    return data.apply(lambda entry: entry.float() if entry.is_floating_point() else entry)


def make_batch(kind: str, *shape: int) -> TensorDict:
    return single(make_data(kind, *shape))


class Joined(nn.Module):
    """A network of its inputs side by side."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, *inputs):
        return self.net(torch.cat([each.float() for each in inputs], -1))


def foreign_actor(
    low: float = -1.0, high: float = 1.0, bias: float = 0.0, key="action", spec="box"
) -> ProbabilisticActor:
    """An actor of TorchRL's parts alone, with the spec of its box or another."""
    net = MLP(in_features=4, out_features=4, num_cells=[16])
    with torch.no_grad():
        net[-1].bias[:2] += bias
    return ProbabilisticActor(
        TensorDictModule(
            nn.Sequential(net, NormalParamExtractor()),
            in_keys=["observation"],
            out_keys=["loc", "scale"],
        ),
        in_keys=["loc", "scale"],
        out_keys=[key],
        spec=Bounded(low, high, (2,)) if spec == "box" else spec,
        distribution_class=TanhNormal,
        distribution_kwargs={"low": low, "high": high},
        return_log_prob=True,
    )


def foreign_critic() -> ValueOperator:
    """A critic of TorchRL's parts alone."""
    net = MLP(in_features=6, out_features=1, num_cells=[16])
    return ValueOperator(Joined(net), in_keys=["observation", "action"])
