import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit_sac.analysis import learning_curves
from rlkit_sac.errors import ConfigError


def table(*runs, recipe="sac", task="Pendulum-v1"):
    """One run per list of (frames, return) pairs."""
    rows = [
        {"run": f"run{k}", "recipe": recipe, "task": task, "frames": frames, "return_mean": value}
        for k, run in enumerate(runs)
        for frames, value in run
    ]
    return pd.DataFrame(rows)


def test_mean_and_sample_standard_deviation_of_three_runs():
    curve = learning_curves(
        table([(100, 1.0), (200, 4.0)], [(100, 2.0), (200, 4.0)], [(100, 6.0), (200, 4.0)])
    )
    assert curve["frames"].tolist() == [100, 200]
    assert curve["mean"].tolist() == [3.0, 4.0]
    # Squared deviations from 3: 4 + 1 + 9 = 14, over n - 1 = 2.
    np.testing.assert_allclose(curve["std"], [7**0.5, 0.0])
    assert curve["runs"].tolist() == [3, 3]


def test_runs_evaluated_at_different_frames_meet_on_the_common_range():
    curve = learning_curves(
        table([(0, 0.0), (100, 10.0), (200, 30.0)], [(50, 5.0), (150, 25.0), (300, 40.0)])
    )
    # Frame 0 precedes the second run, frame 300 follows the first.
    assert curve["frames"].tolist() == [50, 100, 150, 200]
    # First run: 5, 10, 20, 30. Second run: 5, 15, 25, 25 + 50/150 * 15 = 30.
    np.testing.assert_allclose(curve["mean"], [5.0, 12.5, 22.5, 30.0])


def test_a_single_run_is_its_own_mean_and_has_no_deviation():
    curve = learning_curves(table([(200, 2.0), (100, 1.0)]))
    assert curve["frames"].tolist() == [100, 200]
    assert curve["mean"].tolist() == [1.0, 2.0]
    assert curve["std"].isna().all()


def test_recipes_and_tasks_are_kept_apart():
    parts = [table([(0, 1.0)]), table([(5, 2.0)], task="Hopper-v5"), table([(9, 3.0)], recipe="x")]
    curves = learning_curves(pd.concat(parts))
    assert curves[["recipe", "task", "frames", "mean"]].to_numpy().tolist() == [
        ["sac", "Hopper-v5", 5, 2.0],
        ["sac", "Pendulum-v1", 0, 1.0],
        ["x", "Pendulum-v1", 9, 3.0],
    ]


def test_rows_without_a_value_are_left_out():
    curve = learning_curves(table([(0, 1.0), (10, np.nan), (20, 3.0)]))
    assert curve["frames"].tolist() == [0, 20]


def test_another_column_can_be_averaged():
    data = table([(0, 1.0)]).assign(alpha=[0.25])
    assert learning_curves(data, column="alpha")["mean"].tolist() == [0.25]


def test_what_cannot_be_averaged_is_refused():
    with pytest.raises(ConfigError, match=r"no column return_mean; its columns: .*frames"):
        learning_curves(table([(0, 1.0)]).drop(columns="return_mean"))
    with pytest.raises(ConfigError, match=r"no row with a value in .*return_mean"):
        learning_curves(table([(0, np.nan)]))
    with pytest.raises(
        ConfigError, match=r"sac on Pendulum-v1 share no frames \(run0: 0 to 1; run1"
    ):
        learning_curves(table([(0, 1.0), (1, 1.0)], [(2, 1.0), (3, 1.0)]))


@given(
    runs=st.lists(
        st.lists(
            st.tuples(st.integers(0, 50), st.floats(-1e3, 1e3)),
            min_size=1,
            unique_by=lambda row: row[0],
        ),
        min_size=1,
        max_size=4,
    )
)
def test_curves_stay_within_the_range_and_values_all_runs_share(runs):
    first = max(min(frames for frames, _ in run) for run in runs)
    last = min(max(frames for frames, _ in run) for run in runs)
    data = table(*runs)
    if first > last:
        with pytest.raises(ConfigError, match="share no frames"):
            learning_curves(data)
        return
    curve = learning_curves(data)
    assert (curve["frames"].min(), curve["frames"].max()) == (first, last)
    assert curve["frames"].is_monotonic_increasing
    assert (
        curve["mean"]
        .between(data["return_mean"].min() - 1e-9, data["return_mean"].max() + 1e-9)
        .all()
    )


def test_runs_of_one_seed_are_counted_with_a_warning():
    data = table([(100, 1.0)], [(100, 3.0)]).assign(seed=[7, 7])
    with pytest.warns(UserWarning, match="several runs of sac on Pendulum-v1 have the seed 7"):
        assert learning_curves(data)["runs"].tolist() == [2]
