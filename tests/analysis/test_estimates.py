import itertools

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


def enumerated_interval(statistic, confidence, *strata):
    """Quantiles over all resamples of each stratum, which are equally likely."""
    resamples = itertools.product(*(itertools.product(s, repeat=len(s)) for s in strata))
    results = sorted(statistic(np.concatenate(resample)) for resample in resamples)
    tail = (1 - confidence) / 2 * len(results)
    return results[int(tail)], results[int(len(results) - tail)]


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


def test_interval_of_the_mean_of_three_runs_is_that_of_all_27_resamples():
    scores = np.array([0.0, 1.0, 5.0])
    # 2.5 % of 27 resamples is less than one, so the ends are the resamples of one run alone.
    low, high = Estimator().interval(scores)
    assert (low, high) == (0.0, 5.0) == enumerated_interval(np.mean, 0.95, scores)
    # Sums of resamples, with how many of 27 have them: 0 1, 1 3, 2 3, 3 1, 5 3, 6 6, 7 3, 10 3,
    # 11 3, 15 1. The quantiles 0.2 and 0.8 lie at number 5.4 and 21.6: sums 2 and 10.
    ends = Estimator(confidence=0.6).interval(scores)
    np.testing.assert_allclose(ends, [2 / 3, 10 / 3])
    np.testing.assert_allclose(ends, enumerated_interval(np.mean, 0.6, scores))


def test_interval_of_the_interquartile_mean_is_that_of_all_resamples():
    scores = np.array([0.0, 1.0, 3.0, 10.0, 40.0])
    for confidence in (0.5, 0.8, 0.95):
        ends = Estimator("iqm", confidence, resamples=99_999).interval(scores)
        np.testing.assert_allclose(ends, enumerated_interval(middle_mean, confidence, scores))


def test_strata_are_resampled_only_among_themselves():
    # Resampled together, a resample could hold only runs of one stratum.
    scores = np.array([0.0, 1.0]), np.array([1000.0, 1001.0, 1002.0])
    low, high = Estimator(confidence=0.999).interval(*scores)
    np.testing.assert_allclose([low, high], [3000 / 5, (2 + 3006) / 5])
    ends = Estimator(confidence=0.7).interval(*scores)
    np.testing.assert_allclose(ends, enumerated_interval(np.mean, 0.7, *scores))


@pytest.mark.parametrize("statistic", STATISTICS)
def test_each_resample_keeps_the_number_of_runs_of_each_stratum(statistic):
    # Strata without variation: every resample is the sample.
    estimator = Estimator(statistic, resamples=FAST)
    strata = np.zeros(5), np.full(2, 100.0), np.full(3, 7.0)
    value = estimator.value(*strata)
    np.testing.assert_allclose(estimator.interval(*strata), [value, value])


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
