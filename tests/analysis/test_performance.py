import pytest

from rlkit_sac.analysis import final_performance


@pytest.fixture
def data(table):
    return table(
        [(0, 0.0), (100, 9.0), (200, 1.0)],
        [(0, 0.0), (100, 3.0), (200, 2.0)],
        [(0, 0.0), (100, 4.0), (200, 6.0)],
    )


def test_the_table_of_three_runs(data):
    (row,) = final_performance(data).to_dict("records")
    # Final values 1, 2, 6: squared deviations from 3 are 4 + 1 + 9 = 14, over n - 1 = 2.
    assert row == {
        "task": "Pendulum-v1",
        "recipe": "sac",
        "frames": 200,
        "runs": 3,
        "mean": 3.0,
        "std": pytest.approx(7**0.5),
        "iqm": 3.0,
        "low": 1.0,
        "high": 6.0,
        "min": 1.0,
        "max": 6.0,
        "best": 9.0,
    }


def test_the_interval_is_that_of_the_statistic(table):
    data = table(*[[(100, x)] for x in (0.0, 1.0, 2.0, 3.0, 1000.0)])
    mean, iqm = (final_performance(data, statistic=s).iloc[0] for s in ("mean", "iqm"))
    assert mean["mean"] == iqm["mean"] == 201.2
    assert mean["iqm"] == iqm["iqm"] == 2.0
    # 5.8 % of resamples draw the outlier at least three times: their mean is above 600.
    assert mean["high"] > 600
    assert iqm["low"] < mean["low"]
