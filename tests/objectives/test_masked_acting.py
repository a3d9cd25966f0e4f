"""Policies of critics with a mask: they act by the values of separate passes."""

import pytest
import torch
from torchrl.envs.utils import ExplorationType

from rlkit_sac.objectives import HybridSACLoss
from tests.modules.test_policies import act, reduced_values, states
from tests.objectives.losses import networks_of
from tests.objectives.masked_networks import DISCRETE, MASK

CELLS = {"num_cells": [8, 8], "activation": "tanh"}
GREEDY = ExplorationType.DETERMINISTIC


def make_loss(action_layer: str = "first", rewards: int = 1, **options) -> HybridSACLoss:
    critic = {"action_layer": action_layer}
    networks = networks_of("hybrid", reward_dim=rewards, critic=critic, **CELLS)
    options = {"parameter_mask": MASK, "mask_critics": True, "alpha_init": 0.05} | options
    loss = HybridSACLoss(**networks, **options)
    with torch.no_grad():  # far from the values of any other action
        for weight in loss.qvalue_network_params.parameters():
            weight.mul_(3.0)
    return loss


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
        assert torch.equal(out[DISCRETE], reduced_values(loss, out, MASK).argmax(-1))
        if batch == (200,):  # and not the highest of the values of all parameters
            unmasked = reduced_values(loss, out, [[1, 1]] * 3).argmax(-1)
            assert (out[DISCRETE] != unmasked).any()


def test_a_loss_and_its_policy_share_their_weights():
    torch.manual_seed(0)
    loss = make_loss()
    policy, data = loss.policy(), states(50)
    loss.load_state_dict(make_loss().state_dict())
    out = act(policy, data, GREEDY)
    assert torch.equal(out[DISCRETE], reduced_values(loss, out, MASK).argmax(-1))
    wide = act(policy.double(), data.double(), GREEDY)
    assert torch.equal(wide[DISCRETE], reduced_values(loss, wide, MASK).argmax(-1))
