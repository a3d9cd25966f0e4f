"""Every option of the continuous loss against the formulas, values and gradients, in float64."""

import pytest
import torch

from tests.objectives.comparison import assert_close, compare_continuous, compare_running_mean
from tests.objectives.networks import ACTION_DIM, NoisyTanhGaussian, make_data, make_loss
from tests.objectives.options import CONTINUOUS, CONTINUOUS_PRIORS
from tests.objectives.prior_references import NAMES
from tests.objectives.references import losses


def compare(**options) -> None:
    compare_continuous(make_loss, losses, **options)


OPTIONS = CONTINUOUS | {
    "target entropy of the spec": {"target_entropy": lambda spec: 0.5 * spec.shape[-1]},
    "direct alpha with everything": {
        "alpha_init": 0.4,
        "alpha_parametrization": "direct",
        "min_alpha": 0.1,
        "max_alpha": 2.0,
        "policy_loss_steps": "all",
        "dqda_clipping": 0.1,
        "reward_scale": 3.0,
        "loss_function": "smooth_l1",
        "qvalue_coef": 0.5,
        "low": [-3.0, -1.0],
        "high": [1.0, 2.0],
        "weights": True,
    },
    "no entropy reward on sequences": {
        "batch": (2, 4),
        "lmbda": 0.5,
        "use_entropy_reward": False,
        "rewards": 2,
        "alpha_parametrization": "exp",
        "alpha_init": 0.3,
        "policy_loss_steps": "all",
    },
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_each_option_equals_the_formula(options):
    for seed in range(3):
        compare(seed=seed, **options)


@pytest.mark.parametrize("prior", NAMES)
@pytest.mark.parametrize("options", CONTINUOUS_PRIORS.values(), ids=CONTINUOUS_PRIORS.keys())
def test_a_prior_enters_as_in_the_formula(prior, options):
    for seed in range(2):
        compare(prior=prior, seed=seed, **options)


@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_reductions_agree_with_the_mean(reduction):
    torch.manual_seed(0)
    mean = make_loss()
    other = make_loss(reduction=reduction, scalar_output_mode="exclude")
    other.load_state_dict(mean.state_dict())
    data = make_data(6)
    noise = torch.randn(2, 6, ACTION_DIM).double()
    NoisyTanhGaussian.queue = [*noise, *noise]
    wanted, found = mean(data.clone()), other(data.clone())
    for name in ("loss_actor", "loss_qvalue", "loss_alpha"):
        each = found[name]
        assert_close(each.mean() if reduction == "none" else each / 6, wanted[name])


def test_normalized_entropy_reward_centers_by_the_running_mean_of_both_states():
    compare_running_mean(make_loss, losses)


def test_the_running_mean_moves_in_training_with_gradients_only():
    torch.manual_seed(0)
    loss = make_loss(normalize_entropy_reward=True)

    def statistics():
        state = loss.state_dict()
        return tuple(state[f"entropy_centers.log_prob.{name}"].item() for name in ("mean", "count"))

    def run():
        NoisyTanhGaussian.queue = [*torch.randn(2, 6, ACTION_DIM).double()]
        loss(make_data(6))
        return statistics()

    assert run()[1] == 1
    before = statistics()
    with torch.no_grad():
        assert run() == before
    loss.eval()
    assert run() == before
    loss.train()
    assert run()[1] == 2
