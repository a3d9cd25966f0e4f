import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from rlkit_sac.analysis.estimates import Estimator

STATISTICS = ["mean", "iqm"]
SCORES = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=9).map(np.array)
FAST = 200  # resamples where their number does not matter


def middle_mean(values):
    """The interquartile mean by its definition."""
    cut = len(values) // 4
    return np.mean(sorted(values)[cut : len(values) - cut])


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
