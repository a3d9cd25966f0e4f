import itertools
import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from rlkit_sac.analysis import probability_of_improvement

FAST = 200  # resamples where their number does not matter
FEW = st.lists(st.integers(0, 5), min_size=2, max_size=5)  # with ties


@pytest.fixture(scope="session")
def groups(table):
    """A table of groups, each a list of tasks, each a list of final values."""

    def make(**groups):
        return pd.concat(
            [
                table(*([(100, float(v))] for v in values), recipe=recipe, task=str(task))
                for recipe, tasks in groups.items()
                for task, values in enumerate(tasks)
            ]
        )

    return make


def wins(x, y):
    """The probability of improvement on one task by its definition."""
    return np.mean([(a > b) + (a == b) / 2 for a in x for b in y])


def enumerated_interval(confidence, *tasks):
    """Quantiles over all resamples of the runs of each task and group."""
    options = (itertools.product(values, repeat=len(values)) for pair in tasks for values in pair)
    resamples = itertools.product(*options)
    results = sorted(
        np.mean([wins(x, y) for x, y in zip(draw[::2], draw[1::2], strict=True)])
        for draw in resamples
    )
    tail = (1 - confidence) / 2 * len(results)
    return results[int(tail)], results[int(len(results) - tail)]


def test_all_ordered_pairs_by_hand(groups):
    table = probability_of_improvement(groups(b=[[3, 3, 0]], a=[[1, 2]], c=[[3, 1]]))
    assert list(table.columns) == [
        "x",
        "y",
        "tasks",
        "runs_x",
        "runs_y",
        "value",
        "low",
        "high",
        "p_value",
    ]
    # a over b wins 1 > 0 and 2 > 0 of 6 pairs, a over c ties 1 = 1 and wins 2 > 1 of 4, b over c
    # ties 3 = 3 and wins 3 > 1, each twice, of 6.
    assert table.drop(columns=["low", "high", "p_value"]).to_numpy().tolist() == [
        ["a", "b", 1, 2, 3, pytest.approx(2 / 6)],
        ["a", "c", 1, 2, 2, 1.5 / 4],
        ["b", "a", 1, 3, 2, pytest.approx(4 / 6)],
        ["b", "c", 1, 3, 2, 3 / 6],
        ["c", "a", 1, 2, 2, 2.5 / 4],
        ["c", "b", 1, 2, 3, 3 / 6],
    ]


@settings(max_examples=30)
@given(tasks=st.lists(st.tuples(FEW, FEW), min_size=1, max_size=3))
def test_the_value_is_the_share_of_pairs_won_on_average_over_tasks(groups, tasks):
    x, y = zip(*tasks, strict=True)
    table = probability_of_improvement(groups(x=x, y=y), resamples=FAST)
    forth, back = table.to_dict("records")
    assert forth["value"] == pytest.approx(np.mean([wins(*pair) for pair in tasks]))
    statistics = [
        scipy.stats.mannwhitneyu(*pair).statistic / math.prod(map(len, pair)) for pair in tasks
    ]
    assert forth["value"] == pytest.approx(np.mean(statistics))
    assert forth["value"] + back["value"] == pytest.approx(1.0)
    for row in (forth, back):
        assert 0 <= row["low"] <= row["high"] <= 1


@settings(max_examples=30)
@given(x=FEW, y=FEW)
def test_the_p_value_is_that_of_scipy_on_one_task_and_missing_on_several(groups, x, y):
    one = probability_of_improvement(groups(x=[x], y=[y]), resamples=FAST)
    expected = scipy.stats.mannwhitneyu(x, y).pvalue
    assert one["p_value"].tolist() == pytest.approx([expected, expected], nan_ok=True)
    two = probability_of_improvement(groups(x=[x, x], y=[y, y]), resamples=FAST)
    assert two["p_value"].isna().all()


@pytest.mark.parametrize("confidence", [0.95, 0.7, 0.4])
@pytest.mark.parametrize(
    "tasks",
    [
        [([1, 3], [2, 4])],  # 16 resamples
        [([1, 3, 5], [2, 3])],  # 108, with a tie
        [([1, 3], [2, 4]), ([7, 5], [5, 6])],  # 256, stratified by task
    ],
)
def test_the_interval_is_that_of_all_resamples(groups, tasks, confidence):
    x, y = zip(*tasks, strict=True)
    table = probability_of_improvement(groups(x=x, y=y), confidence=confidence, resamples=49_999)
    ends = enumerated_interval(confidence, *tasks)
    assert tuple(table.loc[0, ["low", "high"]]) == pytest.approx(ends)
