"""Every option of every loss against the formulas, values and gradients, in float64."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.objectives.comparison import assert_close, check, check_running_mean
from tests.objectives.networks import (
    ACTION_DIM,
    DISCRETE_KINDS,
    NoisyTanhGaussian,
    make_data,
    make_loss,
)
from tests.objectives.options import OPTIONS, PRIOR_OPTIONS
from tests.objectives.prior_references import NAMES

CASES = [
    pytest.param(kind, options, id=f"{kind}-{name}")
    for kind, cases in OPTIONS.items()
    for name, options in cases.items()
]
PRIOR_CASES = [
    pytest.param(kind, options, id=f"{kind}-{name}")
    for kind, cases in PRIOR_OPTIONS.items()
    for name, options in cases.items()
]


@pytest.mark.parametrize(("kind", "options"), CASES)
def test_each_option_equals_the_formula(kind, options):
    check(kind, seed=0, **options)


@pytest.mark.parametrize("prior", NAMES)
@pytest.mark.parametrize(("kind", "options"), PRIOR_CASES)
def test_a_prior_enters_as_in_the_formula(kind, prior, options):
    check(kind, prior=prior, seed=0, **options)


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(DISCRETE_KINDS),
    seed=st.integers(0, 1000),
    critics=st.integers(1, 3),
    actions=st.integers(1, 4),
    alpha_init=st.floats(0.05, 3.0),
    reward_weights=st.none() | st.lists(st.floats(-2, 2), min_size=2, max_size=3),
    lmbda=st.sampled_from([0.0, 0.5, 1.0]),
    discrete_entropy=st.sampled_from(["expected", "sampled"]),
    use_entropy_reward=st.booleans(),
    policy_loss_steps=st.sampled_from(["first", "next", "all"]),
    alpha_parametrization=st.sampled_from(["log", "exp", "direct"]),
    mask=st.booleans(),
    dqda_clipping=st.none() | st.floats(0.001, 1.0),
)
def test_combinations_equal_the_formula(kind, reward_weights, dqda_clipping, **options):
    if reward_weights is not None:
        options |= {"reward_weights": reward_weights, "rewards": len(reward_weights)}
    if kind == "hybrid":
        options["dqda_clipping"] = dqda_clipping
    check(kind, batch=(3, 4), **options)


@pytest.mark.parametrize("kind", ["continuous", "value"])
def test_the_entropy_reward_is_centered_by_the_running_mean_of_both_states(kind):
    check_running_mean(kind)


@pytest.mark.parametrize("kind", DISCRETE_KINDS)
@pytest.mark.parametrize("discrete_entropy", ["expected", "sampled"])
def test_each_factor_is_centered_by_its_own_running_mean(kind, discrete_entropy):
    check_running_mean(kind, discrete_entropy=discrete_entropy)


@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_reductions_agree_with_the_mean(reduction):
    torch.manual_seed(0)
    mean = make_loss()
    other = make_loss(reduction=reduction, scalar_output_mode="exclude")
    other.load_state_dict(mean.state_dict())
    data = make_data("continuous", 6)
    noise = torch.randn(2, 6, ACTION_DIM).double()
    NoisyTanhGaussian.queue = [*noise, *noise]
    wanted, found = mean(data.clone()), other(data.clone())
    for name in ("loss_actor", "loss_qvalue", "loss_alpha"):
        each = found[name]
        assert_close(each.mean() if reduction == "none" else each / 6, wanted[name])


def test_the_running_mean_moves_in_training_with_gradients_only():
    torch.manual_seed(0)
    loss = make_loss(normalize_entropy_reward=True)

    def statistics():
        state = loss.state_dict()
        return tuple(state[f"entropy_centers.log_prob.{name}"].item() for name in ("mean", "count"))

    def run():
        NoisyTanhGaussian.queue = [*torch.randn(2, 6, ACTION_DIM).double()]
        loss(make_data("continuous", 6))
        return statistics()

    assert run()[1] == 1
    before = statistics()
    with torch.no_grad():
        assert run() == before
    loss.eval()
    assert run() == before
    loss.train()
    assert run()[1] == 2
