"""Losses with a prior: keys, targets, training, copies.

The equations are in the reference tests.
"""

from __future__ import annotations

import math

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.modules import UniformPrior
from rlkit_sac.objectives import DiscreteSACLoss
from tests.objectives.losses import own_loss
from tests.objectives.prior_references import (
    BOX,
    HYBRID,
    INDEX,
    Probabilities,
)


class Constant(nn.Module):
    """Values of three actions that no state changes."""

    def __init__(self, values) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.tensor(values, dtype=torch.float64))

    def forward(self, observation):
        return self.values.expand(*observation.shape[:-1], -1)


def test_a_prior_changes_the_boltzmann_policy_as_derived():
    """One step: rewards [1, 0, 0], a prior of [.01, .01, .98] and alpha = .5."""
    alpha = 0.5
    rewards, prior = torch.tensor([[1.0, 0, 0], [0.01, 0.01, 0.98]], dtype=torch.float64)
    critics = [
        TensorDictModule(Constant(rewards.tolist()), ["observation"], ["action_value"])
        for _ in range(2)
    ]
    loss = DiscreteSACLoss(
        critics, prior_network=Probabilities(prior.tolist()), alpha_init=alpha, fixed_alpha=True
    )
    states = TensorDict(observation=torch.zeros(1, 1).double(), batch_size=[1])
    found = loss.policy().get_dist(states).probs[0]

    def objective(probs):
        return (probs * (rewards - alpha * (probs / prior).log())).sum().item()

    weights = prior * (rewards / alpha).exp()
    torch.testing.assert_close(found, weights / weights.sum())
    best = alpha * math.log(weights.sum())  # the soft value
    assert objective(found) == pytest.approx(best, abs=1e-12)
    assert objective(found) == pytest.approx(0.031, abs=5e-4)
    without = (rewards / alpha).softmax(-1)
    assert objective(without) == pytest.approx(-0.939, abs=5e-4)
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        assert loss.policy()(states)["action"].item() == 2

    # The same number is the value of the next state.
    batch = states.clone()
    batch["action"] = torch.zeros(1, dtype=torch.int64)
    ends = torch.zeros(1, 1, dtype=torch.bool)
    batch["next"] = TensorDict(
        observation=states["observation"],
        reward=torch.zeros(1, 1).double(),
        done=ends,
        terminated=ends,
        batch_size=[1],
    )
    loss.make_value_estimator(gamma=1.0)
    out = loss(batch)
    assert batch["td_error"].item() == pytest.approx(math.sqrt(2) * (1 - best), abs=1e-9)
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
