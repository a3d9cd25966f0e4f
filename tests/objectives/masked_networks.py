"""Critics of parameterized actions, each beside its formula in plain float64 PyTorch."""

from collections.abc import Callable

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential
from torch import Tensor, nn
from torchrl.modules import MLP

from rlkit_sac.modules import hybrid_critic
from tests.objectives.networks import (
    ACTION_DIM,
    HIDDEN,
    OBSERVATION_DIM,
    Weights,
    action_values,
    make_critic,
)

CONTINUOUS, DISCRETE = ("action", "continuous"), ("action", "discrete")

#: Of three actions: the first two have one parameter each, the third has none.
MASK = [[1, 0], [0, 1], [0, 0]]

Formula = Callable[[Weights, Tensor, Tensor], Tensor]
Network = tuple[Callable[[int, int], TensorDictModuleBase], Formula | None]


def layers(weights: Weights, prefix: str, x: Tensor) -> Tensor:
    """A perceptron: a tanh before each linear layer but the first; vectors are layer norms."""
    head = f"{prefix}."
    owners = sorted({name[len(head) :].split(".")[0] for name in weights if name.startswith(head)})
    for place, owner in enumerate(owners):
        weight = weights[f"{prefix}.{owner}.weight"]
        bias = weights.get(f"{prefix}.{owner}.bias", 0.0)
        if weight.ndim == 2:
            x = (torch.tanh(x) if place else x) @ weight.T + bias
        else:
            spread = ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1, keepdim=True)
            x = (x - x.mean(-1, keepdim=True)) / (spread + 1e-5).sqrt() * weight + bias
    return x


class Sine(nn.Module):
    """The sine of a linear layer of all inputs: no perceptron that the package knows."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, *inputs: Tensor) -> Tensor:
        return torch.sin(self.linear(torch.cat(inputs, -1)))


class Gated(nn.Module):
    """Action values whose features are scaled by the action, which comes first."""

    def __init__(self, features: int, actions: int, rewards: int) -> None:
        super().__init__()
        self.gate = nn.Linear(ACTION_DIM, features)
        self.values = action_values(features, actions, rewards)

    def forward(self, action: Tensor, features: Tensor) -> Tensor:
        return self.values(features * self.gate(action).exp())


def perceptron(**options) -> Network:
    def make(actions: int, rewards: int) -> TensorDictModuleBase:
        shape = {"num_cells": [6, 5], "activation": "tanh", "reward_dim": rewards} | options
        return hybrid_critic(OBSERVATION_DIM, ACTION_DIM, actions, **shape)

    def formula(weights: Weights, obs: Tensor, c: Tensor) -> Tensor:
        if options.get("action_layer") != "last":
            return layers(weights, "module", torch.cat([obs, c], -1))
        features = torch.tanh(layers(weights, "module.0.module", obs))
        return layers(weights, "module.1.module", torch.cat([features, c], -1))

    return make, formula


def in_one_sequence(actions: int, rewards: int) -> TensorDictModuleBase:
    """An encoder of states, one of states and actions, and a head that reads all."""
    return TensorDictSequential(
        TensorDictModule(Sine(OBSERVATION_DIM, HIDDEN), ["observation"], ["features"]),
        TensorDictSequential(
            TensorDictModule(Sine(HIDDEN + ACTION_DIM, 3), ["features", CONTINUOUS], ["mixed"]),
            TensorDictModule(
                action_values(HIDDEN + 3 + ACTION_DIM, actions, rewards),
                ["mixed", CONTINUOUS, "features"],
                ["action_value"],
            ),
        ),
    )


def of_sequence(weights: Weights, obs: Tensor, c: Tensor) -> Tensor:
    features = torch.sin(layers(weights, "module.0.module", obs))
    mixed = torch.sin(layers(weights, "module.1.module.0.module", torch.cat([features, c], -1)))
    return layers(weights, "module.1.module.1.module.net", torch.cat([mixed, c, features], -1))


def gated(actions: int, rewards: int) -> TensorDictModuleBase:
    return TensorDictSequential(
        TensorDictModule(MLP(OBSERVATION_DIM, HIDDEN, num_cells=[4]), ["observation"], ["f"]),
        TensorDictModule(Gated(HIDDEN, actions, rewards), [CONTINUOUS, "f"], ["action_value"]),
    )


def of_gated(weights: Weights, obs: Tensor, c: Tensor) -> Tensor:
    features = layers(weights, "module.0.module", obs)
    gate = c @ weights["module.1.module.gate.weight"].T + weights["module.1.module.gate.bias"]
    return layers(weights, "module.1.module.values.net", features * gate.exp())


def without_last_bias(actions: int, rewards: int) -> TensorDictModuleBase:
    shape = actions if rewards == 1 else torch.Size([actions, rewards])
    net = MLP(OBSERVATION_DIM + ACTION_DIM, shape, num_cells=[5], bias_last_layer=False)
    return TensorDictModule(net, ["observation", CONTINUOUS], ["action_value"])


NETWORKS: dict[str, Network] = {
    "perceptron": perceptron(),
    "perceptron, last layer": perceptron(action_layer="last"),
    "layer norms": perceptron(layer_norm=True),
    "layer norms, last layer": perceptron(layer_norm=True, action_layer="last"),
    "no hidden layer": perceptron(num_cells=[]),
    "no last bias": (without_last_bias, perceptron()[1]),
    "network of one's own": (
        lambda actions, rewards: make_critic("hybrid", actions, rewards),
        None,  # the formula of every small network
    ),
    "action first, behind an encoder": (gated, of_gated),
    "two readers of the action, behind an encoder": (in_one_sequence, of_sequence),
}


def masked_values(network: TensorDictModuleBase, data: TensorDict, mask: list) -> Tensor:
    """Values ``[*, K, (M)]`` of a critic by one call for each action."""
    values = []
    for k, row in enumerate(mask):
        states = data.clone()
        states[CONTINUOUS] = states[CONTINUOUS] * torch.tensor(row)
        values.append(network(states)["action_value"].select(data.ndim, k))
    return torch.stack(values, data.ndim)
