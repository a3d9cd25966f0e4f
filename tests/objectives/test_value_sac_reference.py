"""Every option of the loss with a value network against the formulas, in float64."""

import pytest
import torch

from tests.objectives.comparison import assert_close, compare_continuous, compare_running_mean
from tests.objectives.networks import (
    ACTION_DIM,
    NoisyTanhGaussian,
    make_data,
    make_value_loss,
    plain_weights,
)
from tests.objectives.options import CONTINUOUS, CONTINUOUS_PRIORS
from tests.objectives.prior_references import NAMES
from tests.objectives.references import Options, act
from tests.objectives.value_references import value_losses


def compare(**options) -> None:
    next_draw = options.get("lmbda", 0) > 0 or options.get("policy_loss_steps", "first") != "first"
    compare_continuous(make_value_loss, value_losses, next_draw=next_draw, **options)


@pytest.mark.parametrize("options", CONTINUOUS.values(), ids=CONTINUOUS.keys())
def test_each_option_equals_the_formula(options):
    for seed in range(3):
        compare(seed=seed, **options)


@pytest.mark.parametrize("prior", NAMES)
@pytest.mark.parametrize("options", CONTINUOUS_PRIORS.values(), ids=CONTINUOUS_PRIORS.keys())
def test_a_prior_enters_as_in_the_formula(prior, options):
    for seed in range(2):
        compare(prior=prior, seed=seed, **options)


def test_normalized_entropy_reward_centers_the_target_of_the_value_network():
    compare_running_mean(make_value_loss, value_losses)


def test_the_critics_and_the_value_network_meet_at_the_soft_value_of_a_constant_reward():
    """One state for ever, reward 1: V = Q + alpha H with Q = 1 + gamma V, whatever the policy."""
    torch.manual_seed(0)
    gamma, bias = 0.9, ("module", "2", "bias")
    loss = make_value_loss(gamma=gamma, fixed_alpha=True, alpha_init=0.5, critics=1)
    data = make_data(64)
    data["next", "terminated"][:] = False
    data["next", "reward"][:] = 1.0
    noise = torch.randn(64, ACTION_DIM).double()
    with torch.no_grad():
        for params in (
            loss.qvalue_network_params,
            loss.value_network_params,
            loss.target_value_network_params,
        ):
            for value in params.values(True, True):
                value.zero_()
        plain, o = plain_weights(loss), Options(alpha=0.5)
        entropy = -act(plain, data["observation"], noise, o)[1].mean()
        v = (1 + 0.5 * entropy) / (1 - gamma)
        loss.value_network_params[bias].fill_(v)
        loss.target_value_network_params[bias].fill_(v)
        loss.qvalue_network_params["module", "net", "2", "bias"].fill_(v - 0.5 * entropy)
    NoisyTanhGaussian.queue = [noise]
    out = loss(data)
    out["loss_value"].backward()
    assert_close(out["loss_qvalue"].detach(), torch.zeros(()).double())
    assert_close(loss.value_network_params[bias].grad, torch.zeros(1).double())
