import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit_sac.functional import (
    continuous_target_entropy,
    discrete_target_entropy,
    negative_dimension_target_entropy,
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


@given(
    bounds=st.lists(st.tuples(st.floats(-100, 100), st.floats(0.01, 100)), min_size=1, max_size=5),
    factor=st.floats(0.01, 100),
    min_prob=st.floats(0.01, 1),
)
def test_scaling_the_actions_moves_it_by_the_logarithm_of_the_scale(
    bounds: list[tuple[float, float]], factor: float, min_prob: float
) -> None:
    # The density scales by 1 / factor in every dimension, and the entropy with it.
    low, high = zip(*((low, low + width) for low, width in bounds), strict=True)
    plain = continuous_target_entropy(low, high, min_prob)
    scaled = continuous_target_entropy(
        [factor * x for x in low], [factor * x for x in high], min_prob
    )
    assert scaled - plain == pytest.approx(len(bounds) * math.log(factor), rel=1e-9, abs=1e-9)


def test_bounds_come_in_pairs() -> None:
    with pytest.raises(ValueError, match="shorter"):
        continuous_target_entropy([-1.0, -1.0], [1.0])


def test_negative_dimension() -> None:
    assert negative_dimension_target_entropy(17) == -17.0


@pytest.mark.parametrize(
    ("num_actions", "wanted"),
    [(1, 0.0), (2, 0.325083), (3, 0.394398), (4, 0.434944), (18, 0.608404)],
)
def test_published_discrete_values(num_actions: int, wanted: float) -> None:
    assert round(discrete_target_entropy(num_actions), 6) == wanted


@given(num_actions=st.integers(2, 50), min_prob=st.floats(0.01, 1.0))
def test_it_is_the_entropy_of_a_policy(num_actions: int, min_prob: float) -> None:
    probs = [1 - min_prob] + [min_prob / (num_actions - 1)] * (num_actions - 1)
    entropy = -sum(p * math.log(p) for p in probs if p > 0)
    found = discrete_target_entropy(num_actions, min_prob)
    assert found == pytest.approx(entropy, rel=1e-9, abs=1e-9)
    assert found <= math.log(num_actions) + 1e-9


def test_scaled_log() -> None:
    assert scaled_log_target_entropy(18) == pytest.approx(0.98 * math.log(18))
