"""Networks that do not fit a loss are refused by name."""

from __future__ import annotations

import pytest
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.data import Categorical
from torchrl.modules import (
    MLP,
    OneHotCategorical,
    ProbabilisticActor,
)

from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.modules import (
    action_value_critic,
    state_action_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.objectives import ContinuousSACLoss, DiscreteSACLoss, HybridSACLoss
from tests.objectives.losses import (
    CONTINUOUS,
    DISCRETE,
    Joined,
    box_actor,
    foreign_actor,
    make_batch,
    own_loss,
)


def critic_of(inputs: int, outputs, reads: list, writes: str = "action_value") -> TensorDictModule:
    net = MLP(in_features=inputs, out_features=outputs, num_cells=[16])
    return TensorDictModule(Joined(net), reads, [writes])


BAD_NETWORKS = {
    "critic reads the action": (
        "boltzmann",
        lambda: DiscreteSACLoss(state_action_critic(4, 2, num_cells=[16])),
        "reads the discrete action 'action': a critic reads the state alone",
    ),
    "another key": (
        "boltzmann",
        lambda: DiscreteSACLoss(critic_of(4, 3, ["observation"], "q")),
        r"writes \['q'\], not 'action_value': .*set_keys\(action_value=...\)",
    ),
    "wrong dimensions": (
        "boltzmann",
        lambda: DiscreteSACLoss(critic_of(4, torch.Size([3, 2, 2]), ["observation"])),
        "wanted .* and K values",
    ),
    "other number of actions": (
        "boltzmann",
        lambda: own_loss("boltzmann", action_spec=Categorical(4)),
        "values of 3 discrete actions, but the action spec has 4",
    ),
    "actor with other actions": (
        "categorical",
        lambda: DiscreteSACLoss(
            action_value_critic(4, 3, num_cells=[16]),
            ProbabilisticActor(
                TensorDictModule(nn.Linear(4, 2), ["observation"], ["logits"]),
                in_keys=["logits"],
                distribution_class=torch.distributions.Categorical,
            ),
        ),
        "the actor has 2 actions, but qvalue_network writes 3",
    ),
    "one-hot actor": (
        "categorical",
        lambda: DiscreteSACLoss(
            action_value_critic(4, 3, num_cells=[16]),
            ProbabilisticActor(
                TensorDictModule(nn.Linear(4, 3), ["observation"], ["logits"]),
                in_keys=["logits"],
                distribution_class=OneHotCategorical,
            ),
        ),
        "OneHotCategorical, wanted a torch.distributions.Categorical",
    ),
    "hybrid critic without c": (
        "hybrid",
        lambda: HybridSACLoss(
            box_actor(action_key=CONTINUOUS), action_value_critic(4, 3, num_cells=[16])
        ),
        r"not the continuous action \('action', 'continuous'\)",
    ),
    "hybrid critic reads d": (
        "hybrid",
        lambda: HybridSACLoss(
            box_actor(action_key=CONTINUOUS), critic_of(7, 3, ["observation", CONTINUOUS, DISCRETE])
        ),
        "reads the discrete action",
    ),
    "mask of another shape": (
        "hybrid",
        lambda: own_loss("hybrid", parameter_mask=[[1, 0], [0, 1]]),
        r"parameter_mask has the shape \[2, 2\], wanted \[3, 2\]",
    ),
    "weights without outputs": (
        "boltzmann",
        lambda: own_loss("boltzmann", reward_weights=[1.0, 2.0]),
        "the reward is a scalar",
    ),
}


@pytest.mark.parametrize(("kind", "build", "message"), BAD_NETWORKS.values(), ids=BAD_NETWORKS)
def test_networks_that_do_not_fit_are_refused(kind, build, message):
    with pytest.raises(BatchError, match=message):
        build()(make_batch(kind, 5))


def test_batch_norm_is_refused():
    critic = TensorDictModule(
        Joined(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))),
        in_keys=["observation", "action"],
        out_keys=["state_action_value"],
    )
    with pytest.raises(ConfigError, match=r"BatchNorm1d at 'module.net.1'.*LayerNorm"):
        ContinuousSACLoss(foreign_actor(), critic)


def test_a_critic_that_writes_another_key_is_named():
    critic = state_action_critic(4, 2, num_cells=[16])
    critic.out_keys = ["q"]
    with pytest.raises(BatchError, match=r"writes \['q'\], not 'state_action_value'"):
        ContinuousSACLoss(foreign_actor(), critic)(make_batch("continuous", 5))


def test_a_critic_that_ignores_the_action_is_refused():
    critic = TensorDictModule(
        nn.Linear(4, 1), in_keys=["observation"], out_keys=["state_action_value"]
    )
    with pytest.raises(BatchError, match="not the action 'action'"):
        ContinuousSACLoss(foreign_actor(), critic)(make_batch("continuous", 5))


def wrapped(module: nn.Module, inputs=("observation",), output="state_value") -> TensorDictModule:
    return TensorDictModule(module, in_keys=list(inputs), out_keys=[output])


BAD_VALUE_NETWORKS = {
    "bare": (lambda: nn.Linear(4, 1), ConfigError, "Linear without in_keys"),
    "lazy": (lambda: wrapped(nn.LazyLinear(1)), ConfigError, "value_network has lazy layers"),
    "batch norm": (
        lambda: wrapped(nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 1))),
        ConfigError,
        "value_network has a BatchNorm1d",
    ),
    "reads the action": (
        lambda: wrapped(Joined(nn.Linear(6, 1)), ("observation", "action")),
        BatchError,
        "and so the action 'action'",
    ),
    "other key": (
        lambda: wrapped(nn.Linear(4, 1), output="v"),
        BatchError,
        r"value_network writes \['v'\], not 'state_value'.*set_keys\(value=...\)",
    ),
    "two values": (
        lambda: wrapped(nn.Linear(4, 2)),
        BatchError,
        r"value_network wrote values of the shape \[5, 2\], wanted \[5, 1\]",
    ),
}


@pytest.mark.parametrize(
    ("network", "error", "message"), BAD_VALUE_NETWORKS.values(), ids=BAD_VALUE_NETWORKS.keys()
)
def test_value_networks_that_cannot_be_are_refused(network, error, message):
    actor = tanh_gaussian_actor(4, [-1.0, -1.0], [1.0, 1.0])
    with pytest.raises(error, match=message):
        ContinuousSACLoss(actor, state_action_critic(4, 2), network())(make_batch("value", 5))
