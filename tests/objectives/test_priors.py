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

from rlkit_sac.modules import (
    PolicyPrior,
    UniformPrior,
    action_value_critic,
    categorical_actor,
)
from rlkit_sac.objectives import DiscreteSACLoss
from tests.objectives.discrete_networks import make_discrete_data, make_discrete_loss
from tests.objectives.losses import CELLS, make_batch, own_loss
from tests.objectives.networks import NoisyTanhGaussian, make_data, make_loss
from tests.objectives.prior_references import (
    BOX,
    HYBRID,
    INDEX,
    Probabilities,
    make_prior,
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


@pytest.mark.parametrize("kind", ["continuous", "boltzmann", "categorical", "hybrid"])
def test_the_uniform_prior_is_the_entropy_up_to_a_constant(kind):
    """Same gradients of the actor; entropies and divergences that add up to the constant."""
    outs, slopes = [], []
    for with_prior in (False, True):
        torch.manual_seed(0)
        options = {"alpha_init": 0.3, "use_entropy_reward": False}
        if with_prior:
            options["prior_network"] = make_prior("uniform", kind).module
        if kind == "continuous":
            loss, data = make_loss(**options), make_data(6)
        else:
            loss, data = make_discrete_loss(kind, **options), make_discrete_data(kind, 6)
        NoisyTanhGaussian.queue = [*torch.randn(2, 6, 2).double()]
        out = loss(data)
        names = [name for name in ("loss_actor", "loss_qvalue") if name in out.keys()]  # noqa: SIM118
        sum(out[name] for name in names).backward()
        outs.append(out)
        slopes.append([p.grad for p in loss.parameters() if p.grad is not None])
    for wanted, found in zip(*slopes, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)
    constants = {"": math.log(3), "_discrete": math.log(3), "_continuous": 2 * math.log(2)}
    if kind == "continuous":
        constants[""] = 2 * math.log(2)
    plain, prior = outs
    for suffix, constant in constants.items():
        if f"kl{suffix}" in prior.keys():  # noqa: SIM118
            total = prior[f"kl{suffix}"] + prior[f"entropy{suffix}"]
            assert total.item() == pytest.approx(constant, abs=1e-9)
            torch.testing.assert_close(prior[f"entropy{suffix}"], plain[f"entropy{suffix}"])


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


def test_a_categorical_actor_is_pulled_towards_its_prior():
    torch.manual_seed(0)
    learned, wanted = categorical_actor(4, 3, **CELLS), categorical_actor(4, 3, **CELLS)
    loss = DiscreteSACLoss(
        action_value_critic(4, 3, **CELLS),
        learned,
        prior_network=PolicyPrior(wanted),
        alpha_init=100.0,
        fixed_alpha=True,
    )
    optimizer = torch.optim.Adam(loss.actor_network_params.parameters(), 0.02)
    for _ in range(200):
        data = make_batch("boltzmann", 64)
        out = loss(data)
        out["loss_actor"].backward()
        optimizer.step()
        optimizer.zero_grad()
    assert out["kl"].item() < 1e-3
