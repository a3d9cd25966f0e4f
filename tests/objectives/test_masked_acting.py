"""Policies of critics with a mask: they act by the values of separate passes."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.objectives import HybridSACLoss
from tests.objectives.losses import networks_of
from tests.objectives.masked_networks import DISCRETE, MASK, masked_values

CELLS = {"num_cells": [8, 8], "activation": "tanh"}
GREEDY, RANDOM = ExplorationType.DETERMINISTIC, ExplorationType.RANDOM


def make_loss(action_layer: str = "first", rewards: int = 1, **options) -> HybridSACLoss:
    critic = {"action_layer": action_layer}
    networks = networks_of("hybrid", reward_dim=rewards, critic=critic, **CELLS)
    options = {"parameter_mask": MASK, "mask_critics": True, "alpha_init": 0.05} | options
    loss = HybridSACLoss(**networks, **options)
    with torch.no_grad():  # far from the values of any other action
        for weight in loss.qvalue_network_params.parameters():
            weight.mul_(3.0)
    return loss


def act(policy, data: TensorDict, mode: ExplorationType) -> TensorDict:
    with set_exploration_type(mode), torch.no_grad():
        return policy(data.copy())


def states(*batch: int) -> TensorDict:
    return TensorDict(observation=torch.randn(*batch, 4), batch_size=batch)


def reduced(loss: HybridSACLoss, data: TensorDict, mask: list) -> Tensor:
    """The values ``[*, K]`` that the policy goes by, from one call for each critic and action."""
    each = []
    for i in range(loss.num_qvalue_nets):
        with torch.no_grad(), loss.qvalue_network_params[i].to_module(loss.qvalue_network):
            each.append(
                masked_values(loss.qvalue_network, data.select("observation", "action"), mask)
            )
    q, weights = torch.stack(each), loss.reward_weights
    if loss._policy.reduction == "mean":
        q = q.mean(0)
    elif weights is None:
        q = q.min(0).values
    else:
        q = torch.where(weights < 0, q.max(0).values, q.min(0).values)
    return q if weights is None else (q * weights).sum(-1)


@pytest.mark.parametrize("action_layer", ["first", "last"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"policy_reduction": "mean", "num_qvalue_nets": 3, "deactivate_vmap": True},
        {"rewards": 2, "reward_weights": [1.0, -0.5]},
    ],
)
def test_the_greedy_action_has_the_highest_masked_value(action_layer, options):
    torch.manual_seed(0)
    loss = make_loss(action_layer, **options)
    for batch in ((), (200,), (2, 3)):
        out = act(loss.policy(), states(*batch), GREEDY)
        assert torch.equal(out[DISCRETE], reduced(loss, out, MASK).argmax(-1))
        if batch == (200,):  # and not the highest of the values of all parameters
            unmasked = reduced(loss, out, [[1, 1]] * 3).argmax(-1)
            assert (out[DISCRETE] != unmasked).any()


def test_a_loss_and_its_policy_share_their_weights():
    torch.manual_seed(0)
    loss = make_loss()
    policy, data = loss.policy(), states(50)
    loss.load_state_dict(make_loss().state_dict())
    out = act(policy, data, GREEDY)
    assert torch.equal(out[DISCRETE], reduced(loss, out, MASK).argmax(-1))
    wide = act(policy.double(), data.double(), GREEDY)
    assert torch.equal(wide[DISCRETE], reduced(loss, wide, MASK).argmax(-1))
