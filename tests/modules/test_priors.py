"""Densities of priors against numerical integration and SciPy, and priors as parts of a loss."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import truncnorm
from tensordict import TensorDict
from tensordict.nn import (
    CompositeDistribution,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
)
from torch import nn
from torch.distributions import Distribution, Independent, Normal
from torchrl.data import Bounded, Categorical, Composite, OneHot, Unbounded
from torchrl.modules import NormalParamExtractor, ProbabilisticActor, TanhNormal

from rlkit_sac.errors import BatchError, ConfigError
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
HYBRID = Composite(continuous=BOX, discrete=Categorical(3))
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("low", [-1.0, 0.1])
@pytest.mark.parametrize("prob", [0.9, 1.0])
def test_densities_and_slopes_are_finite_at_the_closed_bounds(dtype, low, prob):
    """A saturated tanh reaches a bound exactly, or leaves the box by rounding."""
    high = low + 0.7
    spec = Bounded(low, high, (1,), dtype=dtype)
    eps = torch.finfo(dtype).eps
    actions = [spec.space.low, spec.space.high, spec.space.low - eps, spec.space.high + eps]
    action = torch.stack(actions).requires_grad_()
    for before in (low, high, 0.0, 100.0):
        states = TensorDict(
            prev_action=torch.full((4, 1), before, dtype=dtype),
            is_init=torch.zeros(4, 1, dtype=torch.bool),
            batch_size=[4],
        )
        for prior in (UniformPrior(spec), SameActionPrior(spec, prob, 0.02)):
            log_prob = prior.get_dist(states).log_prob(action)
            assert log_prob.dtype == dtype
            assert log_prob.isfinite().all()
            (slope,) = torch.autograd.grad(
                log_prob.sum() + 0 * action.sum(), action, retain_graph=True
            )
            assert slope.isfinite().all()


def test_the_slope_of_same_actions_is_that_of_the_density():
    prior = SameActionPrior(BOX, 0.6, 0.2)
    action = (LOW + (HIGH - LOW) * torch.rand(5, 2).double()).requires_grad_()
    dist = prior.get_dist(state(size=5))
    assert torch.autograd.gradcheck(dist.log_prob, action)


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


def test_a_composite_spec_gives_a_distribution_for_each_part():
    before = TensorDict(
        continuous=torch.zeros(4, 2).double(), discrete=torch.arange(4) % 3, batch_size=[4]
    )
    states = TensorDict(
        prev_action=before, is_init=torch.zeros(4, 1, dtype=torch.bool), batch_size=[4]
    )
    for spec in (HYBRID, Composite(action=HYBRID)):
        prior = SameActionPrior(spec)
        assert set(prior.in_keys) == {
            ("prev_action", "continuous"),
            ("prev_action", "discrete"),
            "is_init",
        }
        dist = prior.get_dist(states)
        parts = [dist.dists[name].log_prob(before[name]) for name in ("continuous", "discrete")]
        torch.testing.assert_close(dist.log_prob(before), sum(parts))
    assert UniformPrior(HYBRID).in_keys == []


BAD = {
    "one-hot": (lambda: UniformPrior(OneHot(3)), "OneHot: a prior needs a bounded box, or"),
    "unbounded": (lambda: UniformPrior(Unbounded((2,))), "Unbounded.*: a prior needs"),
    "infinite": (lambda: UniformPrior(Bounded(0.0, torch.inf, (2,))), "has the bounds"),
    "batched": (lambda: SameActionPrior(Bounded(-1.0, 1.0, (4, 2))), "pass that of one action"),
    "part": (
        lambda: UniformPrior(Composite(a=Bounded(-1.0, 1.0, (2,)), b=OneHot(2))),
        "spec of 'b'",
    ),
    "prob": (lambda: SameActionPrior(BOX, 1.1), "same_action_prob must be in"),
    "noise": (lambda: SameActionPrior(BOX, 0.9, 0.0), "same_action_noise must be a finite"),
    "no actor": (
        lambda: PolicyPrior(TensorDictModule(nn.Linear(3, 2), ["observation"], ["action"])),
        "has no distribution",
    ),
    "no prior": (lambda: FrozenPrior(nn.Linear(1, 1)), "without in_keys"),
    "an object": (lambda: FrozenPrior("uniform"), "prior_network is a str without in_keys"),
    "a memory": (
        lambda: FrozenPrior(PolicyPrior(categorical_actor(3, 2, memory={"kind": "lstm"}))),
        "acts by a memory, 'actor_state_h', 'actor_state_c': .* a policy without memory",
    ),
}


@pytest.mark.parametrize(("make", "message"), BAD.values(), ids=BAD.keys())
def test_what_cannot_be_a_prior_is_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


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


class Lopsided(Distribution):
    """Of a user: over indices, with nothing but probabilities of samples."""

    arg_constraints = {}  # noqa: RUF012

    def log_prob(self, value):
        return torch.where(value == 2, 0.5, 0.25).log()


class OfAUser(nn.Module):
    in_keys = ("height",)

    def get_dist(self, tensordict):
        return Lopsided(tensordict.batch_size, validate_args=False)


def test_a_prior_of_a_user_needs_no_logits():
    states = TensorDict(height=torch.zeros(2, 5, 1), batch_size=[2, 5])
    prior = FrozenPrior(OfAUser())
    assert prior.in_keys == ["height"]
    found = prior.log_prob_of_each_action(states, 3, "action").exp()
    torch.testing.assert_close(found, torch.tensor([0.25, 0.25, 0.5]).expand(2, 5, 3))


def test_torchrls_composite_distributions_are_priors():
    net = TensorDictModule(nn.Linear(3, 7), ["observation"], ["out"])
    split = TensorDictModule(
        lambda out: (out[..., :2], out[..., 2:4].exp(), out[..., 4:]),
        ["out"],
        [("params", "c", "loc"), ("params", "c", "scale"), ("params", "d", "logits")],
    )
    draw = ProbabilisticTensorDictModule(
        in_keys=["params"],
        out_keys=[("action", "continuous"), ("action", "discrete")],
        distribution_class=CompositeDistribution,
        distribution_kwargs={
            "distribution_map": {"c": independent, "d": torch.distributions.Categorical},
            "name_map": {"c": ("action", "continuous"), "d": ("action", "discrete")},
        },
    )
    prior = FrozenPrior(PolicyPrior(ProbabilisticTensorDictSequential(net, split, draw)))
    states = TensorDict(observation=torch.randn(5, 3), batch_size=[5])
    action = torch.randn(5, 2)
    out = net.module(states["observation"])
    wanted = Normal(out[:, :2], out[:, 2:4].exp()).log_prob(action)
    torch.testing.assert_close(
        prior.log_prob(states, action, ("action", "continuous")), wanted.sum(-1)
    )
    torch.testing.assert_close(
        prior.log_prob_of_each_dimension(states, action, ("action", "continuous")), wanted
    )
    torch.testing.assert_close(
        prior.log_prob_of_each_action(states, 3, ("action", "discrete")),
        out[:, 4:].log_softmax(-1),
    )


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


MISFITS = {
    "actions": (
        UniformPrior(BOX),
        lambda prior, states: prior.log_prob(states, torch.zeros(2, 3), "action"),
        r"over actions of the shape \[2\], but the actor's have \[3\]",
    ),
    "previous actions": (
        SameActionPrior(Bounded(-1.0, 1.0, (3,))),
        lambda prior, states: prior.log_prob(states, torch.zeros(2, 3), "action"),
        r"'prev_action' has the shape \[2, 2\]",
    ),
    "discrete actions": (
        UniformPrior(Categorical(3)),
        lambda prior, states: prior.log_prob_of_each_action(states, 4, "action"),
        r"logits of the shape \[2, 3\], wanted \[2, 4\]",
    ),
    "sums": (
        PolicyPrior(gaussian(Normal)),
        lambda prior, states: prior.log_prob(states, torch.zeros(2, 2), "action"),
        r"log-probabilities of the shape \[2, 2\]",
    ),
    "dimensions": (
        PolicyPrior(gaussian()),
        lambda prior, states: prior.log_prob_of_each_dimension(states, torch.zeros(2, 2), "action"),
        "TanhNormal: parameter_mask needs the density of each dimension",
    ),
    "parts": (
        UniformPrior(HYBRID),
        lambda prior, states: prior.log_prob(states, torch.zeros(2, 2), "action"),
        "distributions of 'continuous', 'discrete', none of the action 'action'",
    ),
}


@pytest.mark.parametrize(("prior", "call", "message"), MISFITS.values(), ids=MISFITS.keys())
def test_a_prior_that_does_not_fit_the_actions_is_refused(prior, call, message):
    states = TensorDict(
        observation=torch.zeros(2, 3),
        prev_action=torch.zeros(2, 2),
        is_init=torch.zeros(2, 1, dtype=torch.bool),
        batch_size=[2],
    )
    with pytest.raises(BatchError, match=message):
        call(FrozenPrior(prior), states)
