import math

import pytest

from rlkit_sac.functional import (
    continuous_target_entropy,
    discrete_target_entropy,
    scaled_log_target_entropy,
)


@pytest.mark.parametrize(
    ("dimensions", "min_prob", "wanted", "digits"),
    [(1, 0.1, -1.609438, 6), (6, 0.1, -9.656627, 6), (17, 0.184, -16.9944, 4)],
)
def test_published_values(dimensions: int, min_prob: float, wanted: float, digits: int) -> None:
    found = continuous_target_entropy([-1.0] * dimensions, [1.0] * dimensions, min_prob)
    assert round(found, digits) == wanted


def test_every_interval_counts_in_its_own_units() -> None:
    found = continuous_target_entropy([-2.0, 0.1], [0.5, 0.3], 0.5)
    assert found == pytest.approx(math.log(1.25) + math.log(0.1), abs=1e-12)


@pytest.mark.parametrize(
    ("num_actions", "wanted"),
    [(1, 0.0), (2, 0.325083), (3, 0.394398), (4, 0.434944), (18, 0.608404)],
)
def test_published_discrete_values(num_actions: int, wanted: float) -> None:
    assert round(discrete_target_entropy(num_actions), 6) == wanted


def test_scaled_log() -> None:
    assert scaled_log_target_entropy(18) == pytest.approx(0.98 * math.log(18))
