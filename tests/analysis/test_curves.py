import warnings

import numpy as np
import pandas as pd
import pytest

from rlkit_sac.analysis import area_under_curve, frames_to_threshold, learning_curves
from rlkit_sac.errors import ConfigError


def test_mean_and_interval_of_three_runs(table):
    curve = learning_curves(
        table([(100, 1.0), (200, 4.0)], [(100, 2.0), (200, 4.0)], [(100, 6.0), (200, 4.0)])
    )
    names = ["task", "recipe", "frames", "value", "low", "high", "runs"]
    assert list(curve.columns) == names
    # The 95 % interval of three runs is their range.
    rows = [["Pendulum-v1", "sac", 100, 3, 1, 6, 3], ["Pendulum-v1", "sac", 200, 4, 4, 4, 3]]
    assert curve.to_numpy().tolist() == rows


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


def test_the_interval_resamples_runs_and_not_points(table):
    # Two runs that cross: at each frame a resample holds the same runs, so where their mean is
    # certain it is so in every resample, and elsewhere both runs alone are resamples.
    curve = learning_curves(
        table([(0, 0.0), (100, 4.0)], [(0, 4.0), (100, 0.0)]), frames=[0, 50, 100]
    )
    assert curve[["low", "high"]].to_numpy().tolist() == [[0, 4], [2, 2], [0, 4]]


def test_areas_of_a_task_are_over_the_frames_that_all_of_its_runs_cover(table):
    sac = table([(0, 0.0), (100, 4.0), (200, 4.0)], [(0, 0.0), (200, 8.0)])
    acer = table([(50, 2.0), (200, 8.0), (210, 99.0)], recipe="acer")
    areas = area_under_curve(pd.concat([sac, acer]))
    # From 50 to 200: 2 to 4 over 50 frames and 4 over 100, (3 * 50 + 4 * 100) / 150; 2 to 8.
    assert areas[["recipe", "start", "end", "runs"]].to_numpy().tolist() == [
        ["acer", 50, 200, 1],
        ["sac", 50, 200, 2],
    ]
    np.testing.assert_allclose(areas["value"], [5.0, (550 / 150 + 5.0) / 2])
    np.testing.assert_allclose(areas[["low", "high"]].iloc[1], [550 / 150, 5.0])
    with pytest.raises(ConfigError, match="share no range of frames"):
        area_under_curve(table([(0, 1.0), (100, 2.0)], [(100, 3.0)]))


@pytest.mark.parametrize(
    ("threshold", "reached", "value", "low", "high"),
    [
        (5, 3, 100, 100, 200),  # after 100, 100 and 200 frames
        (6, 2, 200, 100, np.inf),  # after 100 and 200, and not within 200
        (9, 1, np.inf, 200, np.inf),
        (99, 0, np.inf, np.inf, np.inf),
    ],
)
def test_frames_to_a_threshold_are_a_median_in_which_never_is_last(
    table, threshold, reached, value, low, high
):
    runs = [[5.0, 9.0], [7.0, 3.0], [1.0, 5.0]]  # the second falls back, which does not count
    data = table(*[list(zip((100, 200), run, strict=True)) for run in runs])
    (row,) = frames_to_threshold(data, threshold).to_dict("records")
    assert row == {
        **{"task": "Pendulum-v1", "recipe": "sac", "threshold": threshold, "runs": 3},
        **{"reached": reached, "value": value, "low": low, "high": high},
    }


def test_a_run_that_ends_before_it_is_there_is_named(table):
    data = table([(100, 1.0), (200, 9.0)], [(100, 1.0)])
    with pytest.warns(UserWarning, match="frame 100; they count as never there"):
        assert frames_to_threshold(data, 9)["value"].tolist() == [np.inf]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert frames_to_threshold(data, 1)["value"].tolist() == [100.0]  # both were there
