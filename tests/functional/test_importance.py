import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rlkit_sac.functional import (
    bias_correction_weight,
    expected_bias_correction,
    importance_ratio,
    log_importance_ratio,
    retrace_coefficient,
    truncate_ratio,
)

THRESHOLDS = [0.0, 0.3, 1.0, 3.0, 10.0]


def policies(seed: int, actions: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    """A policy far from its behavior policy, as log-probabilities, and any function of actions."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(2, actions, generator=generator, dtype=torch.float64)
    function = torch.randn(actions, generator=generator, dtype=torch.float64)
    log_pi, log_mu = logits.log_softmax(-1)
    return log_pi, log_mu, function


@pytest.mark.parametrize("threshold", THRESHOLDS)
@given(seed=st.integers(0, 10_000))
def test_truncation_and_correction_are_unbiased(threshold: float, seed: int) -> None:
    """All actions are counted, none is drawn."""
    log_pi, log_mu, function = policies(seed)
    log_ratio = log_importance_ratio(log_pi, log_mu)
    truncated = log_mu.exp() * truncate_ratio(importance_ratio(log_ratio), threshold) * function
    corrected = expected_bias_correction(log_ratio, log_pi.exp(), function, threshold)
    wanted = (log_pi.exp() * function).sum().item()
    assert (truncated + corrected).sum().item() == pytest.approx(wanted, abs=1e-12)
    sampled = log_pi.exp() * bias_correction_weight(log_ratio, threshold) * function
    assert sampled.sum().item() == pytest.approx(corrected.sum().item(), abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ratios_are_finite(dtype: torch.dtype) -> None:
    log_pi = torch.tensor([0.0, -1e10, -torch.inf, -torch.inf, 0.0], dtype=dtype)
    log_mu = torch.tensor([-torch.inf, 0.0, -torch.inf, 0.0, -1e10], dtype=dtype)
    log_ratio = log_importance_ratio(log_pi, log_mu)
    largest = torch.finfo(dtype).max
    assert importance_ratio(log_ratio).tolist() == [largest, 0.0, 1.0, 0.0, largest]
    assert retrace_coefficient(log_ratio, 3).tolist() == [1.0, 0.0, 1.0, 0.0, 1.0]
    for threshold in THRESHOLDS:
        weight = bias_correction_weight(log_ratio, threshold)
        same = max(0.0, 1 - threshold)
        none = 1.0 if threshold == 0 else 0.0  # of actions that the policy never takes
        assert weight.tolist() == pytest.approx([1.0, none, same, none, 1.0], abs=1e-6)


@given(log_ratio=st.floats(-30, 30), dims=st.integers(1, 20))
def test_traces_are_roots_of_the_joint_ratio(log_ratio: float, dims: int) -> None:
    found = retrace_coefficient(torch.tensor(log_ratio, dtype=torch.float64), dims)
    assert found.item() == pytest.approx(min(1.0, math.exp(log_ratio) ** (1 / dims)), rel=1e-12)
