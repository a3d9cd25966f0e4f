"""A loss whose networks begin with an encoder is the loss of the heads on its features."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from rlkit_sac.modules import MaskedCritic, action_value_critic, hybrid_critic
from rlkit_sac.objectives import DiscreteSACLoss
from tests.modules.test_encoders import MIXED, states
from tests.objectives.test_shared_encoder import make_rows

GRU = {"kind": "gru", "size": 6, "num_actions": 3}
INPUTS: Any = {"layout": MIXED, "features": 10}  # of each image: 25 with the vector


@pytest.mark.parametrize("memory", [None, GRU], ids=["", "memory"])
def test_losses_are_those_of_the_features(memory: Any) -> None:
    torch.manual_seed(0)
    options: Any = {"num_cells": [9], "memory": memory}
    whole = action_value_critic(INPUTS, 3, **options).double()
    heads = action_value_critic(25, 3, **options).double()
    tensors = list(whole.state_dict().values())[-len(heads.state_dict()) :]
    heads.load_state_dict(dict(zip(heads.state_dict(), tensors, strict=True)))
    encoder, data = whole.module[0], make_rows("boltzmann", 4, 5)
    features = data.clone()
    with torch.no_grad():
        for each in (features, features["next"]):
            each["observation"] = encoder(each.clone())["features"]
    found, wanted = (
        DiscreteSACLoss(critic, num_qvalue_nets=1)(batch)
        for critic, batch in ((whole, data), (heads, features))
    )
    for key in ("loss_qvalue", "loss_alpha", "entropy"):
        torch.testing.assert_close(found[key], wanted[key], rtol=1e-10, atol=1e-12)


def test_copies_of_critics_have_encoders_of_their_own_that_learn() -> None:
    loss = DiscreteSACLoss(action_value_critic(INPUTS, 3, num_cells=[9]))
    weights = [w for name, w in loss.named_parameters() if "layers" in name and "weight" in name]
    assert len(weights) == 4
    batch = make_rows("boltzmann", 2, 4)
    batch["observation"], batch["next", "observation"] = (
        each["observation"].float() for each in (batch, batch["next"])
    )
    batch["next", "reward"] = batch["next", "reward"].float()
    loss(batch)["loss_qvalue"].backward()
    for weight in weights:
        assert weight.shape[0] == 2
        assert not torch.equal(weight[0], weight[1])
        assert all(each.abs().sum() > 0 for each in weight.grad)


def test_a_masked_critic_encodes_a_state_once_for_all_actions() -> None:
    critic = hybrid_critic(INPUTS, 3, 2, num_cells=[9])
    convolutions = [each for each in critic.modules() if isinstance(each, nn.Conv2d)]
    sizes: list[int] = []
    for each in convolutions:
        each.register_forward_hook(lambda _, inputs, __: sizes.append(len(inputs[0])))
    mask = torch.tensor([[True, False, True], [False, True, False]])
    data = states(4)
    data["action", "continuous"] = torch.randn(4, 3)
    found = MaskedCritic(critic, mask)(data.clone())["action_value"]
    assert sizes == [4, 4]
    for place, own in enumerate(mask):
        one = data.clone()
        one["action", "continuous"] = one["action", "continuous"] * own
        torch.testing.assert_close(found[:, place], critic(one)["action_value"][:, place])
