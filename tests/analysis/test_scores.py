import itertools

import numpy as np
import pandas as pd
import pytest

from rlkit_sac.analysis import aggregate_scores, performance_profiles

REFERENCES = {"A": (0.0, 10.0), "B": (-1000.0, 1000.0), "C": (0.0, 1.0)}


@pytest.fixture
def two_tasks(table):
    first = table([(100, 1.0)], [(100, 2.0)], [(100, 6.0)], task="A")
    return pd.concat([first, table([(100, 0.0)], [(100, 800.0)], [(100, 400.0)], task="B")])


def test_scores_of_two_tasks_by_hand(two_tasks):
    (row,) = aggregate_scores(two_tasks, REFERENCES).to_dict("records")
    # Scores 0.1, 0.2, 0.6 and 0.5, 0.9, 0.7: without the lowest and the highest 2.0 / 4.
    assert row["value"] == pytest.approx(0.5)
    assert (row["recipe"], row["tasks"], row["runs"]) == ("sac", 2, 6)
    (row,) = aggregate_scores(two_tasks, REFERENCES, statistic="mean").to_dict("records")
    assert row["value"] == pytest.approx(0.5)


def test_the_interval_of_scores_is_stratified_by_task(two_tasks):
    (row,) = aggregate_scores(
        two_tasks, REFERENCES, statistic="mean", confidence=0.8, resamples=99_999
    ).to_dict("records")
    means = sorted(
        np.mean(a + b)
        for a in itertools.product((0.1, 0.2, 0.6), repeat=3)
        for b in itertools.product((0.5, 0.9, 0.7), repeat=3)
    )
    assert (row["low"], row["high"]) == pytest.approx((means[72], means[656]))  # of 729


def test_profiles_of_two_tasks_by_hand(two_tasks):
    profile = performance_profiles(two_tasks, REFERENCES)
    # Scores 0.1, 0.2, 0.6 and 0.5, 0.9, 0.7: at each, those above it, of 6.
    assert profile["tau"].tolist() == pytest.approx([0.1, 0.2, 0.5, 0.6, 0.7, 0.9])
    assert profile["value"].tolist() == pytest.approx([5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0])
    assert set(zip(profile["recipe"], profile["tasks"], profile["runs"], strict=True)) == {
        ("sac", 2, 6)
    }
    profile = performance_profiles(two_tasks, REFERENCES, thresholds=[0.55, -1.0, 0.55, 2.0])
    assert profile["tau"].tolist() == [-1.0, 0.55, 2.0]
    assert profile["value"].tolist() == pytest.approx([1.0, 0.5, 0.0])


def test_the_band_of_a_profile_is_that_of_all_resamples(table):
    data = pd.concat([table([(1, 1.0)], [(1, 6.0)], task=task) for task in "AC"])
    # At 0.3 one of two runs is above on each task: the number above of a resample is binomial
    # with n = 4 and p = 1/2, so 0 to 4 have the probabilities 1, 4, 6, 4 and 1 of 16.
    for confidence, low, high in [(0.95, 0.0, 1.0), (0.7, 0.25, 0.75), (0.3, 0.5, 0.5)]:
        profile = performance_profiles(
            data, {"A": (0, 10), "C": (0, 10)}, thresholds=[0.3], confidence=confidence
        )
        assert profile[["value", "low", "high"]].to_numpy().tolist() == [[0.5, low, high]]
