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
from tests.objectives.prior_references import NAMES
from tests.objectives.references import Options, act
from tests.objectives.value_references import value_losses


def compare(**options) -> None:
    next_draw = options.get("lmbda", 0) > 0 or options.get("policy_loss_steps", "first") != "first"
    compare_continuous(make_value_loss, value_losses, next_draw=next_draw, **options)


OPTIONS = {
    "defaults": {},
    "one critic": {"critics": 1},
    "five critics": {"critics": 5},
    "gamma": {"gamma": 0.5},
    "l1": {"loss_function": "l1"},
    "smooth l1": {"loss_function": "smooth_l1"},
    "mean of the critics": {"policy_reduction": "mean", "critics": 3},
    "half mean squared error": {"qvalue_coef": 0.5},
    "reward scale": {"reward_scale": 0.1},
    "fixed alpha": {"alpha_init": 0.2, "fixed_alpha": True},
    "alpha above its bound": {"alpha_init": 7.0, "max_alpha": 0.7},
    "exp alpha": {"alpha_init": 0.2, "alpha_parametrization": "exp"},
    "direct alpha": {"alpha_init": 0.2, "alpha_parametrization": "direct"},
    "negative dimension": {"target_entropy": "neg_dim"},
    "clipped action gradient": {"dqda_clipping": 0.05},
    "no entropy reward": {"use_entropy_reward": False},
    "policy losses on s and s'": {"policy_loss_steps": "all"},
    "policy losses on s'": {"policy_loss_steps": "next"},
    "bounds": {"low": [-2.0, 0.1], "high": [0.5, 0.3]},
    "three rewards": {"rewards": 3},
    "signed reward weights": {"rewards": 3, "reward_weights": [0.5, -2.0, 0.0]},
    "mask": {"mask": True},
    "importance weights": {"weights": True},
    "mask and importance weights": {"mask": True, "weights": True},
    "no vmap": {"deactivate_vmap": True},
    "sequences": {"batch": (3, 5)},
    "lambda": {"batch": (3, 5), "lmbda": 0.6},
    "lambda one": {"batch": (4, 3), "lmbda": 1.0},
    "lambda, masked": {"batch": (3, 6), "lmbda": 0.8, "mask": True},
    "vector rewards on sequences": {
        "batch": (3, 5),
        "rewards": 2,
        "reward_weights": [1.0, -0.3],
        "lmbda": 0.9,
        "mask": True,
        "weights": True,
        "dqda_clipping": 0.02,
        "critics": 3,
        "policy_loss_steps": "all",
    },
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_each_option_equals_the_formula(options):
    for seed in range(3):
        compare(seed=seed, **options)


PRIORS = {
    "defaults": {},
    "target": {"target_kld_per_dim": 0.7, "alpha_init": 0.3},
    "mean of the critics": {"policy_reduction": "mean", "critics": 3},
    "no entropy reward": {"use_entropy_reward": False},
    "sequences with everything": {
        "batch": (3, 5),
        "rewards": 2,
        "reward_weights": [1.0, -0.3],
        "lmbda": 0.9,
        "mask": True,
        "weights": True,
        "dqda_clipping": 0.02,
        "policy_loss_steps": "all",
        "target_kld_per_dim": 0.2,
    },
}


@pytest.mark.parametrize("prior", NAMES)
@pytest.mark.parametrize("options", PRIORS.values(), ids=PRIORS.keys())
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
