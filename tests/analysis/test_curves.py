import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit_sac.analysis import learning_curves
from rlkit_sac.errors import ConfigError

FAST = 200  # resamples where their number does not matter


def test_mean_and_interval_of_three_runs(table):
    curve = learning_curves(
        table([(100, 1.0), (200, 4.0)], [(100, 2.0), (200, 4.0)], [(100, 6.0), (200, 4.0)])
    )
    names = ["task", "recipe", "frames", "value", "low", "high", "runs"]
    assert list(curve.columns) == names
    # The 95 % interval of three runs is their range.
    rows = [["Pendulum-v1", "sac", 100, 3, 1, 6, 3], ["Pendulum-v1", "sac", 200, 4, 4, 4, 3]]
    assert curve.to_numpy().tolist() == rows


def test_the_interquartile_mean_withstands_an_outlier(table):
    curve = learning_curves(table(*[[(100, x)] for x in (1.0, 2.0, 4.0, 1e6)]), statistic="iqm")
    assert curve["value"].tolist() == [3.0]


def test_runs_evaluated_at_different_frames_meet_on_the_common_range(table):
    curve = learning_curves(
        table([(0, 0.0), (100, 10.0), (200, 30.0)], [(50, 5.0), (150, 25.0), (210, 37.0)])
    )
    # Frame 0 precedes the second run, frame 210 follows the first.
    assert curve["frames"].tolist() == [50, 100, 150, 200]
    # First run: 5, 10, 20, 30. Second run: 5, 15, 25, 25 + 50/60 * 12 = 35.
    np.testing.assert_allclose(curve["value"], [5.0, 12.5, 22.5, 32.5])


def test_a_number_of_frames_is_spread_evenly_over_the_common_range(table):
    data = table([(0, 0.0), (100, 10.0), (200, 30.0)], [(50, 5.0), (150, 25.0), (200, 30.0)])
    curve = learning_curves(data, frames=4)
    assert curve["frames"].tolist() == [50, 100, 150, 200]
    curve = learning_curves(data, frames=3)
    assert curve["frames"].tolist() == [50, 125, 200]
    # First run: 5, 15, 30. Second run: 5, 20, 30.
    np.testing.assert_allclose(curve["value"], [5.0, 17.5, 30.0])
    assert curve["frames"].dtype == "int64"


def test_frames_can_be_listed(table):
    data = table([(0, 0.0), (100, 10.0)], [(40, 0.0), (100, 6.0)])
    curve = learning_curves(data, frames=[70, 50, 0, 100, 101])
    assert curve["frames"].tolist() == [50, 70, 100]
    # First run: 5, 7, 10. Second run: 1, 3, 6.
    np.testing.assert_allclose(curve["value"], [3.0, 5.0, 8.0])
    with pytest.raises(
        ConfigError, match=r"none of frames lies in the range of sac on .*, 40 to 100"
    ):
        learning_curves(data, frames=[101])
    with pytest.raises(ConfigError, match="frames is 1; a curve needs at least 2 points"):
        learning_curves(data, frames=1)


def test_a_single_run_is_its_own_mean_and_has_no_interval(table):
    curve = learning_curves(table([(200, 2.0), (100, 1.0)]))
    assert curve["frames"].tolist() == [100, 200]
    assert curve["value"].tolist() == [1.0, 2.0]
    assert curve[["low", "high"]].isna().all(axis=None)


def test_tasks_and_recipes_are_kept_apart(table):
    parts = [table([(0, 1.0)]), table([(5, 2.0)], task="Hopper-v5"), table([(9, 3.0)], recipe="x")]
    curves = learning_curves(pd.concat(parts))
    assert curves[["task", "recipe", "frames", "value"]].to_numpy().tolist() == [
        ["Hopper-v5", "sac", 5, 2.0],
        ["Pendulum-v1", "sac", 0, 1.0],
        ["Pendulum-v1", "x", 9, 3.0],
    ]


def test_settings_can_tell_curves_apart(table):
    data = table([(0, 1.0)], [(0, 3.0)], [(0, 10.0)], [(0, 7.0)])
    data["loss.max_alpha"] = [1.0, 1.0, 0.5, None]
    curves = learning_curves(data, by=["loss.max_alpha"])
    assert list(curves.columns[:3]) == ["task", "loss.max_alpha", "frames"]
    assert curves["loss.max_alpha"].tolist()[:2] == [0.5, 1.0]
    assert curves["value"].tolist() == [10.0, 2.0, 7.0]
    assert curves["runs"].tolist() == [1, 2, 1]
    assert learning_curves(data, by=())["runs"].tolist() == [4]


def test_rows_without_a_value_are_left_out(table):
    curve = learning_curves(table([(0, 1.0), (10, np.nan), (20, 3.0)]))
    assert curve["frames"].tolist() == [0, 20]


def test_another_column_can_be_aggregated(table):
    data = table([(0, 1.0)]).assign(alpha=[0.25])
    assert learning_curves(data, column="alpha")["value"].tolist() == [0.25]


def test_values_at_one_frame_of_a_run_are_averaged(table):
    # Two environments whose episodes end together.
    data = table([(10, 1.0), (10, 3.0), (20, 5.0)])
    assert learning_curves(data)["value"].tolist() == [2.0, 5.0]


def test_what_cannot_be_aggregated_is_refused(table):
    with pytest.raises(ConfigError, match=r"no column return_mean; its columns: .*frames"):
        learning_curves(table([(0, 1.0)]).drop(columns="return_mean"))
    with pytest.raises(ConfigError, match=r"no row with a value in .*return_mean"):
        learning_curves(table([(0, np.nan)]))
    with pytest.raises(
        ConfigError, match=r"sac on Pendulum-v1 share no frames \(sac/Pendulum-v1/0: 0 to 1; sac"
    ):
        learning_curves(table([(0, 1.0), (1, 1.0)], [(2, 1.0), (3, 1.0)]))


def test_the_interval_resamples_runs_and_not_points(table):
    # Two runs that cross: at each frame a resample holds the same runs, so where their mean is
    # certain it is so in every resample, and elsewhere both runs alone are resamples.
    curve = learning_curves(
        table([(0, 0.0), (100, 4.0)], [(0, 4.0), (100, 0.0)]), frames=[0, 50, 100]
    )
    assert curve[["low", "high"]].to_numpy().tolist() == [[0, 4], [2, 2], [0, 4]]


@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(table, random):
    data = table(*[[(0, float(k)), (100, k * k / 3), (200, 1.5 * k)] for k in range(5)])
    order = random.sample(range(len(data)), len(data))
    curves = [learning_curves(x, resamples=FAST) for x in (data, data.iloc[order])]
    pd.testing.assert_frame_equal(*curves)


@pytest.mark.filterwarnings("ignore:.*end early")
@given(
    runs=st.lists(
        st.lists(
            st.tuples(st.integers(0, 50), st.floats(-1e3, 1e3)),
            min_size=1,
            unique_by=lambda row: row[0],
        ),
        min_size=1,
        max_size=5,
    ),
    statistic=st.sampled_from(["mean", "iqm"]),
)
def test_curves_stay_within_the_range_and_values_all_runs_share(table, runs, statistic):
    first = max(min(frames for frames, _ in run) for run in runs)
    last = min(max(frames for frames, _ in run) for run in runs)
    data = table(*runs)
    if first > last:
        with pytest.raises(ConfigError, match="share no frames"):
            learning_curves(data)
        return
    curve = learning_curves(data, statistic=statistic, resamples=FAST)
    assert (curve["frames"].min(), curve["frames"].max()) == (first, last)
    assert curve["frames"].is_monotonic_increasing
    bounds = data["return_mean"].min() - 1e-9, data["return_mean"].max() + 1e-9
    for name in ["value", "low", "high"]:
        assert curve[name].dropna().between(*bounds).all()
    assert (curve["low"].isna() == (len(runs) == 1)).all()
