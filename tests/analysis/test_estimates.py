import itertools
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit_sac.analysis.estimates import Estimator
from rlkit_sac.errors import ConfigError

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


def test_all_points_see_the_same_resamples():
    # A run and the same run shifted: if points were resampled apart, their difference would vary.
    rng = np.random.default_rng(0)
    scores = rng.normal(size=6)
    estimator = Estimator(confidence=0.37, resamples=501)
    low, high = estimator.interval(np.stack([scores, scores + 5.0, scores]))
    np.testing.assert_allclose(low - low[0], [0.0, 5.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(high - high[0], [0.0, 5.0, 0.0], atol=1e-12)


def test_many_points_are_the_points_one_by_one(monkeypatch):
    scores = np.random.default_rng(0).normal(size=(20, 5))
    estimator = Estimator("iqm", resamples=FAST)
    single = [np.array(estimator.interval(row)) for row in scores]
    np.testing.assert_array_equal(estimator.interval(scores), np.stack(single, axis=-1))
    monkeypatch.setattr("rlkit_sac.analysis.estimates.CHUNK", 3 * FAST * 5)
    np.testing.assert_array_equal(estimator.interval(scores), np.stack(single, axis=-1))


@pytest.mark.parametrize("statistic", STATISTICS)
@given(scores=SCORES, scale=st.floats(0.01, 100), shift=st.floats(-1e3, 1e3))
def test_scale_and_shift_carry_over(statistic, scores, scale, shift):
    estimator = Estimator(statistic, resamples=FAST)
    before = np.array([estimator.value(scores), *estimator.interval(scores)])
    after = np.array([estimator.value(m := scale * scores + shift), *estimator.interval(m)])
    np.testing.assert_allclose(after, scale * before + shift, rtol=1e-7, atol=1e-6)
    value, low, high = before
    mirrored = np.array([estimator.value(-scores), *estimator.interval(-scores)])
    np.testing.assert_allclose(mirrored, [-value, -high, -low], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("statistic", STATISTICS)
@given(scores=SCORES)
def test_estimates_stay_within_the_runs(statistic, scores):
    estimator = Estimator(statistic, resamples=FAST)
    low, high = estimator.interval(scores)
    tiny = 1e-9
    assert scores.min() - tiny <= low <= high <= scores.max() + tiny
    assert scores.min() - tiny <= estimator.value(scores) <= scores.max() + tiny


@pytest.mark.parametrize("statistic", STATISTICS)
@given(data=st.data(), scores=SCORES)
def test_the_order_of_runs_does_not_change_the_value(statistic, data, scores):
    permuted = np.array(data.draw(st.permutations(list(scores))))
    estimator = Estimator(statistic)
    np.testing.assert_allclose(estimator.value(permuted), estimator.value(scores), atol=1e-9)


def test_the_interval_depends_on_the_seed_alone():
    scores = np.random.default_rng(0).normal(size=8)
    np.random.seed(1)
    first = Estimator(resamples=FAST, seed=3).interval(scores)
    np.random.seed(2)
    assert Estimator(resamples=FAST, seed=3).interval(scores) == first
    assert Estimator(resamples=FAST, seed=4).interval(scores) != first


def test_a_single_run_has_no_interval():
    low, high = Estimator().interval(np.array([[1.0], [2.0]]))
    assert np.isnan([low, high]).all()
    assert low.shape == (2,)
    assert np.isnan(Estimator().interval(np.array([1.0, 2.0]), np.array([3.0]))).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"statistic": "median"}, "statistic is 'median'; choose 'mean' or 'iqm'"),
        ({"confidence": 95}, "confidence is 95; it must lie between 0 and 1"),
        ({"confidence": 0.0}, "confidence is 0.0"),
        ({"resamples": 0}, "resamples is 0"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        Estimator(**arguments)


def test_missing_scipy_is_named_with_the_line_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(ConfigError, match=r"need scipy.*pip install 'rlkit_sac\[plots\]'"):
        Estimator().interval(np.array([1.0, 2.0]))
    assert Estimator().value(np.array([1.0, 2.0])) == 1.5  # the mean needs none
