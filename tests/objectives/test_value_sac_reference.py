"""Every option of the loss with a value network against the formulas, in float64."""

import pytest

from tests.objectives.comparison import compare_continuous, compare_running_mean
from tests.objectives.networks import make_value_loss
from tests.objectives.options import CONTINUOUS, CONTINUOUS_PRIORS
from tests.objectives.prior_references import NAMES
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
