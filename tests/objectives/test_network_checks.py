"""Networks that do not fit a loss are refused by name."""

from __future__ import annotations

import pytest
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.data import Categorical
from torchrl.modules import MLP

from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.modules import action_value_critic
from rlkit_sac.objectives import ContinuousSACLoss, DiscreteSACLoss, HybridSACLoss
from tests.objectives.losses import (
    CONTINUOUS,
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
    "hybrid critic without c": (
        "hybrid",
        lambda: HybridSACLoss(
            box_actor(action_key=CONTINUOUS), action_value_critic(4, 3, num_cells=[16])
        ),
        r"not the continuous action \('action', 'continuous'\)",
    ),
    "another key of Q(s, a)": (
        "continuous",
        lambda: ContinuousSACLoss(foreign_actor(), critic_of(6, 1, ["observation", "action"], "q")),
        r"writes \['q'\], not 'state_action_value'",
    ),
    "critic without the action": (
        "continuous",
        lambda: ContinuousSACLoss(
            foreign_actor(), critic_of(4, 1, ["observation"], "state_action_value")
        ),
        "not the action 'action'",
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
