import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlkit_sac.functional import (
    boltzmann_log_prob,
    expected_value,
    normalized_log_prob,
    sample_categorical,
    taken_value,
)

VALUES = st.lists(st.floats(-50, 50), min_size=1, max_size=6)


@given(value=VALUES, alpha=st.floats(0.05, 20))
def test_probabilities_are_those_of_the_formula(value: list[float], alpha: float) -> None:
    best = max(value)
    weights = [math.exp((each - best) / alpha) for each in value]
    wanted = torch.tensor(weights, dtype=torch.float64) / sum(weights)
    found = boltzmann_log_prob(torch.tensor(value, dtype=torch.float64), alpha).exp()
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("alpha", [0.0, 1e-45, 1e-30])
def test_without_temperature_it_is_greedy(dtype: torch.dtype, alpha: float) -> None:
    value = torch.tensor([1.0, -1e6, 1.0], dtype=dtype, requires_grad=True)
    log_prob = boltzmann_log_prob(value, alpha)
    assert log_prob.exp().tolist() == [0.5, 0.0, 0.5]
    entropy = -(log_prob.exp() * log_prob).sum()
    assert entropy.item() == pytest.approx(math.log(2))


def test_an_excluded_action_has_finite_log_probability_and_gradient() -> None:
    logits = torch.tensor([0.3, -torch.inf, 1.0], requires_grad=True)
    log_prob = normalized_log_prob(logits)
    (log_prob.exp() * (2.0 * log_prob - 1.0)).sum().backward()
    assert log_prob.isfinite().all()
    assert logits.grad is not None
    assert logits.grad[1] == 0
    assert logits.grad.isfinite().all()


def test_samples_have_the_probabilities_asked_for() -> None:
    torch.manual_seed(0)
    prob = torch.tensor([0.1, 0.0, 0.6, 0.3])
    sample = sample_categorical(prob.log().expand(100_000, 4))
    frequency = sample.bincount(minlength=4) / 100_000
    torch.testing.assert_close(frequency, prob, rtol=0, atol=0.005)
    assert frequency[1] == 0


def test_expected_value_by_hand() -> None:
    value = torch.tensor([[[1.0, 10.0], [3.0, 30.0]], [[5.0, 50.0], [7.0, 70.0]]])
    prob = torch.tensor([[0.25, 0.75], [1.0, 0.0]])
    assert expected_value(value, prob).tolist() == [[2.5, 25.0], [5.0, 50.0]]


def test_taken_value_by_hand() -> None:
    value = torch.arange(24.0).reshape(2, 2, 3, 2)  # critics, states, actions, rewards
    found = taken_value(value, torch.tensor([2, 0]))
    assert found.tolist() == [[[4.0, 5.0], [6.0, 7.0]], [[16.0, 17.0], [18.0, 19.0]]]
    assert taken_value(value[:, 0], torch.tensor(1)).tolist() == [[2.0, 3.0], [14.0, 15.0]]
