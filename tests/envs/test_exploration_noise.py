"""Spectrum, variance and marginal of correlated noise, against theory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from rlkit_sac.envs.exploration_noise import colored_noise

DRAWS = 20_000


def drawn(length: int, beta: float) -> np.ndarray:
    generator = torch.Generator().manual_seed(0)
    return colored_noise([DRAWS, length], beta, generator=generator).double().numpy()


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("length", [1, 2, 3, 8, 9, 50])
def test_each_step_is_standard_normal(length: int, beta: float) -> None:
    noise = drawn(length, beta)
    assert np.abs(noise.mean(0)).max() < 5 / DRAWS**0.5
    assert np.abs((noise**2).mean(0) - 1).max() < 5 * (2 / DRAWS) ** 0.5
    assert all(kstest(noise[:, step], "norm").pvalue > 1e-5 for step in (0, length - 1))


@pytest.mark.parametrize("beta", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("length", [40, 41])
def test_the_power_falls_with_the_frequency(length: int, beta: float) -> None:
    power = (np.abs(np.fft.rfft(drawn(length, beta))) ** 2).mean(0)
    frequency = np.maximum(np.fft.rfftfreq(length), 1 / length)
    ratio = power * frequency**beta
    np.testing.assert_allclose(ratio / ratio.mean(), 1, atol=0.06)


def test_white_noise_is_independent_from_step_to_step() -> None:
    noise = drawn(8, 0.0)
    np.testing.assert_allclose(noise.T @ noise / DRAWS, np.eye(8), atol=0.04)
