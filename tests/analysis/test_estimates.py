import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from rlkit_sac.analysis.estimates import Estimator

STATISTICS = ["mean", "iqm"]
SCORES = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=9).map(np.array)
FAST = 200  # resamples where their number does not matter


def middle_mean(values):
    """The interquartile mean by its definition."""
    cut = len(values) // 4
    return np.mean(sorted(values)[cut : len(values) - cut])


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([7.0], 7.0),
        ([1.0, 9.0], 5.0),
        ([0.0, 1.0, 20.0], 7.0),  # fewer than 4: the mean
        ([0.0, 4.0, 2.0, 90.0], 3.0),  # the middle half, 2 and 4
        ([50.0, 1.0, 2.0, 3.0, -50.0], 2.0),  # 3 of 5
        ([1.0, 2.0, 3.0, 4.0, 5.0, 99.0], 3.5),  # 4 of 6
        ([0.0, 2.0, 3.0, 4.0, 5.0, 6.0, 99.0], 4.0),  # 5 of 7
        ([0.0, 0.0, 1.0, 2.0, 3.0, 6.0, 50.0, 70.0], 3.0),  # 4 of 8
    ],
)
def test_interquartile_mean_of_known_numbers(scores, expected):
    assert Estimator("iqm").value(np.array(scores)) == expected
    assert middle_mean(scores) == expected


@given(SCORES)
def test_interquartile_mean_drops_a_quarter_rounded_down_at_each_end(scores):
    np.testing.assert_allclose(Estimator("iqm").value(scores), middle_mean(scores), atol=1e-9)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_interval_is_that_of_scipy(statistic):
    random = np.random.default_rng(1)
    strata = [random.normal(size=(2, 6)), random.normal(size=(2, 5))]
    estimator = Estimator(statistic, confidence=0.8, resamples=FAST, seed=3)
    expected = scipy.stats.bootstrap(
        strata,
        lambda *resampled, axis: estimator.value(*resampled),
        vectorized=True,
        axis=-1,
        n_resamples=FAST,
        confidence_level=0.8,
        method="percentile",
        random_state=np.random.default_rng(3),
    ).confidence_interval
    np.testing.assert_allclose(estimator.interval(*strata), expected, rtol=1e-12)
