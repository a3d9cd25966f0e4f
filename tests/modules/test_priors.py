"""Densities of priors against numerical integration and SciPy, and priors as parts of a loss."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import truncnorm
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torch.distributions import Independent, Normal
from torchrl.data import Bounded, Categorical
from torchrl.modules import NormalParamExtractor, ProbabilisticActor, TanhNormal

from rlkit_sac.modules import (
    PolicyPrior,
    SameActionPrior,
    UniformPrior,
    action_value_critic,
    categorical_actor,
    hybrid_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.modules.priors.frozen import FrozenPrior
from rlkit_sac.objectives import DiscreteSACLoss, HybridSACLoss

LOW, HIGH = torch.tensor([[-2.0, 0.1], [0.5, 0.3]], dtype=torch.float64)
BOX = Bounded(LOW, HIGH, (2,), dtype=torch.float64)
#: Midpoints of a fine grid over each dimension, and the cells' widths.
CELLS = 20_000
GRID = LOW + (HIGH - LOW) * ((torch.arange(CELLS).double() + 0.5) / CELLS).unsqueeze(-1)
WIDTH = (HIGH - LOW) / CELLS


def state(before=(0.4, 0.12), *, is_init=False, size=CELLS) -> TensorDict:
    return TensorDict(
        prev_action=torch.tensor(before).double().expand(size, -1),
        is_init=torch.tensor([is_init]).expand(size, -1),
        batch_size=[size],
    )


STATES = {
    "in the middle": state((-0.7, 0.2)),
    "near a bound": state((0.49, 0.11)),
    "on the bounds": state((-2.0, 0.3)),
    "outside": state((0.0, 0.0)),
    "first step": state(is_init=True),
}


@pytest.mark.parametrize("states", STATES.values(), ids=STATES.keys())
@pytest.mark.parametrize("prob", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("noise", [0.01, 0.1, 3.0])
def test_the_density_of_same_actions_integrates_to_one_in_each_dimension(states, prob, noise):
    dist = SameActionPrior(BOX, prob, noise).get_dist(states)
    each = dist.log_probs(GRID)
    total = (each.exp() * WIDTH).sum(0)
    assert torch.allclose(total, torch.ones(2).double(), atol=2e-6)
    torch.testing.assert_close(dist.log_prob(GRID), each.sum(-1))


@pytest.mark.parametrize("is_init", [False, True])
def test_the_density_of_same_actions_is_the_mixture_of_truncated_normals(is_init):
    before, prob, noise = np.array([0.4, 0.12]), 0.8, 0.05
    low, high = LOW.numpy(), HIGH.numpy()
    grid = torch.cat([GRID, LOW.unsqueeze(0), HIGH.unsqueeze(0)])
    x = grid.numpy()

    def truncated(mean, sigma):
        return truncnorm.pdf(x, (low - mean) / sigma, (high - mean) / sigma, mean, sigma)

    p = 0.0 if is_init else prob
    wide = truncated((low + high) / 2, high - low)
    wanted = (1 - p) * wide + p * truncated(before, noise * (high - low))
    states = state(before, is_init=is_init, size=len(x))
    found = SameActionPrior(BOX, prob, noise).get_dist(states).log_probs(grid)
    np.testing.assert_allclose(found.numpy(), np.log(wanted), rtol=1e-9, atol=1e-9)


def test_the_uniform_density_integrates_to_one():
    dist = UniformPrior(BOX).get_dist(state())
    log_prob = dist.log_prob(GRID)
    torch.testing.assert_close(log_prob.exp() * (HIGH - LOW).prod(), torch.ones(CELLS).double())
    assert log_prob[0].item() == pytest.approx(-math.log(2.5) - math.log(0.2), abs=1e-12)


@pytest.mark.parametrize("prob", [0.0, 0.3, 1.0])
def test_discrete_probabilities_sum_to_one_and_prefer_the_previous_action(prob):
    before = torch.tensor([0, 2, 1, 2])
    is_init = torch.tensor([[False], [False], [False], [True]])
    states = TensorDict(prev_action=before, is_init=is_init, batch_size=[4])
    prior = FrozenPrior(SameActionPrior(Categorical(3), prob))
    probs = prior.log_prob_of_each_action(states, 3, "action").exp()
    wanted = torch.full((4, 3), (1 - prob) / 2)
    wanted[range(3), before[:3]] = prob
    wanted[3] = 1 / 3
    torch.testing.assert_close(probs, wanted)


# ---------------------------------------------------------------------- policies


def gaussian(dist_class=TanhNormal, **options) -> ProbabilisticActor:
    net = nn.Sequential(nn.Linear(3, 4), NormalParamExtractor())
    return ProbabilisticActor(
        TensorDictModule(net, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=dist_class,
        **options,
    )


def independent(loc, scale):
    return Independent(Normal(loc, scale), 1)


@pytest.mark.parametrize(
    "actor",
    [
        tanh_gaussian_actor(3, [-1.0] * 2, [1.0] * 2, num_cells=[8]),
        gaussian(),
        gaussian(return_log_prob=True),
        gaussian(independent),
    ],
    ids=["own", "TorchRL's", "with log-probabilities", "not squashed"],
)
def test_the_prior_of_an_actor_is_its_distribution(actor):
    states = TensorDict(observation=torch.randn(5, 3), batch_size=[5])
    action = torch.rand(5, 2) - 0.5
    prior = FrozenPrior(PolicyPrior(actor))
    assert prior.in_keys == ["observation"]
    wanted = actor.get_dist(states.copy()).log_prob(action)
    torch.testing.assert_close(prior.log_prob(states, action, "action"), wanted)
    assert set(states.keys()) == {"observation"}


def test_the_prior_of_a_hybrid_policy_takes_the_discrete_part_given_the_continuous_one():
    key = ("action", "continuous")
    actor = tanh_gaussian_actor(3, [-1.0] * 2, [1.0] * 2, num_cells=[8], action_key=key)
    policy = HybridSACLoss(actor, hybrid_critic(3, 2, 4, num_cells=[8])).policy()
    prior = FrozenPrior(PolicyPrior(policy))
    assert prior.in_keys == ["observation"]
    c = (torch.rand(5, 2) * 2 - 1).requires_grad_()
    states = TensorDict(observation=torch.randn(5, 3), batch_size=[5])
    states["action", "continuous"] = c
    found = prior.log_prob_of_each_action(states, 4, ("action", "discrete"))
    actor, boltzmann = policy.module
    wanted = (boltzmann.action_value(states) / boltzmann.alpha()).log_softmax(-1)
    torch.testing.assert_close(found, wanted)
    (slope,) = torch.autograd.grad(found[:, 0].sum(), c)
    assert slope.abs().sum() > 0
    density = prior.log_prob(states, c, ("action", "continuous"))
    torch.testing.assert_close(density, actor.get_dist(states.copy()).log_prob(c))


@pytest.mark.parametrize(
    "policy",
    [
        DiscreteSACLoss(action_value_critic(3, 4, num_cells=[8])).policy(),
        categorical_actor(3, 4, num_cells=[8]),
    ],
)
def test_the_prior_of_a_discrete_policy_has_its_frequencies(policy):
    states = TensorDict(observation=torch.randn(1, 3).expand(40_000, -1), batch_size=[40_000])
    log_probs = FrozenPrior(PolicyPrior(policy)).log_prob_of_each_action(states, 4, "action")
    with torch.no_grad():
        drawn = PolicyPrior(policy).get_dist(states).sample()
    frequencies = torch.bincount(drawn, minlength=4) / len(drawn)
    assert torch.allclose(frequencies, log_probs[0].exp(), atol=0.02)


def test_a_frozen_prior_is_a_copy_that_nothing_trains():
    actor = tanh_gaussian_actor(3, [-1.0] * 2, [1.0] * 2, num_cells=[8])
    actor.insert(0, TensorDictModule(nn.Dropout(0.5), ["observation"], ["observation"]))
    prior = FrozenPrior(PolicyPrior(actor))
    states = TensorDict(observation=torch.randn(5, 3), batch_size=[5])
    action = torch.zeros(5, 2)
    prior.train()
    before = prior.log_prob(states, action, "action")
    with torch.no_grad():
        for weight in actor.parameters():
            weight.add_(1.0)
    torch.testing.assert_close(prior.log_prob(states, action, "action"), before, rtol=0, atol=0)
    assert not list(prior.parameters())
    assert all(weight.requires_grad for weight in actor.parameters())
    assert len(prior.state_dict()) == len(list(actor.parameters()))
    wide = prior.double().log_prob(states.to(torch.float64), action.double(), "action")
    assert wide.dtype == torch.float64
