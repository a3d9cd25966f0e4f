"""Losses with a prior: keys, targets, training, copies.

The equations are in the reference tests.
"""

from __future__ import annotations

import math

import pytest
import torch
from tensordict.nn import TensorDictModule

from rlkit_sac.modules import UniformPrior
from rlkit_sac.objectives import DiscreteSACLoss
from tests.objectives.losses import own_loss
from tests.objectives.prior_references import BOX, HYBRID, INDEX, Probabilities
from tests.objectives.test_bandits import Constant, one_step


def test_a_prior_changes_the_boltzmann_policy_as_derived():
    """Rewards [1, 0, 0], a prior of [.01, .01, .98] and alpha = .5."""
    rewards, prior = torch.tensor([[1.0, 0, 0], [0.01, 0.01, 0.98]])
    critics = [TensorDictModule(Constant(3), ["observation"], ["action_value"]) for _ in range(2)]
    for critic in critics:
        critic.module.row.data = rewards
    options = {"alpha_init": 0.5, "fixed_alpha": True, "gamma": 1.0}
    loss = DiscreteSACLoss(critics, prior_network=Probabilities(prior.tolist()), **options)
    batch = one_step(torch.zeros(1, dtype=torch.int64), torch.zeros(1, 1))
    batch["next", "terminated"][:] = batch["next", "done"][:] = False
    found = loss.policy().get_dist(batch).probs[0]
    weights = prior * (rewards / 0.5).exp()
    torch.testing.assert_close(found, weights / weights.sum(), check_dtype=False)
    best = 0.5 * math.log(weights.sum())  # the soft value, of the next state too
    assert best == pytest.approx(0.031, abs=5e-4)
    out = loss(batch)
    assert batch["td_error"].item() == pytest.approx(math.sqrt(2) * (1 - best), abs=1e-6)
    assert out["kl"].item() == pytest.approx((found * (found / prior).log()).sum().item(), abs=1e-6)


def test_the_temperature_aims_at_the_divergence():
    assert own_loss("continuous", prior_network=UniformPrior(BOX)).target_entropy == -6.0
    loss = own_loss("continuous", prior_network=UniformPrior(BOX), target_kld_per_dim=0.5)
    assert loss.target_entropy == -1.0
    assert (
        own_loss("continuous", prior_network=UniformPrior(BOX), fixed_alpha=True).target_entropy
        is None
    )
    loss = own_loss("boltzmann", prior_network=UniformPrior(INDEX))
    assert loss.target_entropy == pytest.approx(-0.5 * math.log(3))
    loss = own_loss("boltzmann", prior_network=UniformPrior(INDEX), target_kld_discrete=math.log(3))
    assert loss.target_entropy == -math.log(3)
    loss = own_loss(
        "hybrid",
        prior_network=UniformPrior(HYBRID),
        target_kld_discrete=0.1,
        target_kld_per_dim=2.0,
    )
    assert (loss.target_entropy_discrete, loss.target_entropy_continuous) == (-0.1, -4.0)
