"""The losses of the soft actor-critic family with small networks of the package, and batches."""

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictModuleBase
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
from rlkit_sac.objectives import (
    ContinuousSACLoss,
    DiscreteSACLoss,
    HybridSACLoss,
    ValueSACLoss,
)
from tests.objectives.networks import DISCRETE_KINDS, NUM_ACTIONS, make_data

KINDS = ["continuous", *DISCRETE_KINDS, "value"]

CONTINUOUS, DISCRETE = ("action", "continuous"), ("action", "discrete")
CELLS = {"num_cells": [16]}


def box_actor(**options) -> ProbabilisticActor:
    return tanh_gaussian_actor(4, [-1.0] * 2, [1.0] * 2, **CELLS, **options)


def networks_of(
    kind: str,
    inputs: Any = 4,
    *,
    low: Sequence[float] = (-1.0, -1.0),
    high: Sequence[float] = (1.0, 1.0),
    reward_dim: int = 1,
    critic: dict[str, Any] | None = None,
    **cells: Any,
) -> dict[str, TensorDictModuleBase]:
    """Networks of the package for a kind of loss, by the names of its arguments.

    Discrete actions are three and continuous dimensions as many as bounds; ``critic`` has options
    of the critics alone.
    """
    shape, networks, dim = cells | {"reward_dim": reward_dim}, {}, len(low)
    if kind in ("continuous", "value", "hybrid"):
        key = CONTINUOUS if kind == "hybrid" else "action"
        actor = tanh_gaussian_actor(inputs, low, high, **cells, action_key=key)
        networks["actor_network"] = actor
    elif kind == "categorical":
        networks["actor_network"] = categorical_actor(inputs, NUM_ACTIONS, **cells)
    of_critic = shape | (critic or {})
    if kind == "hybrid":
        networks["qvalue_network"] = hybrid_critic(inputs, dim, NUM_ACTIONS, **of_critic)
    elif kind in DISCRETE_KINDS:
        networks["qvalue_network"] = action_value_critic(inputs, NUM_ACTIONS, **of_critic)
    else:
        networks["qvalue_network"] = state_action_critic(inputs, dim, **of_critic)
    if kind == "value":
        networks["value_network"] = state_critic(inputs, **shape)
    return networks


def loss_class(kind: str) -> type[LossModule]:
    classes = {"continuous": ContinuousSACLoss, "hybrid": HybridSACLoss, "value": ValueSACLoss}
    return classes.get(kind, DiscreteSACLoss)


def own_loss(kind: str, reward_dim: int = 1, critic: dict | None = None, **options) -> LossModule:
    """A loss of a kind, whose discrete actions are three and continuous dimensions two."""
    networks = networks_of(kind, reward_dim=reward_dim, critic=critic, **CELLS)
    return loss_class(kind)(**networks, **options)


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
