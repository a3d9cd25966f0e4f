import numpy as np
import pandas as pd
import pytest

from rlkit_sac.analysis import final_performance, learning_curves
from rlkit_sac.analysis.groups import split


def test_groups_are_ordered_numbers_before_text_and_missing_last():
    values = ["auto", -3.0, None, 10, 9, "a"]
    data = pd.DataFrame({"x": pd.Series(values, dtype=object), "n": range(6)})
    assert [key["x"] for key, _ in split(data, ["x"])] == [-3.0, 9, 10, "a", "auto", None]
    assert [key["n"] for key, _ in split(data[["n"]].sort_values("n", ascending=False), ["n"])] == [
        *range(6)
    ]


def test_missing_values_are_one_group_and_no_row_is_lost():
    data = pd.DataFrame({"x": [np.nan, 1.0, np.nan], "y": [1, 2, 3]})
    groups = split(data, ["x"])
    assert [(key["x"], list(group["y"])) for key, group in groups] == [(1.0, [2]), (None, [1, 3])]
    assert [len(group) for _, group in split(data, [])] == [3]


@pytest.mark.parametrize("function", [learning_curves, final_performance])
def test_runs_that_end_early_are_named(table, function):
    data = table([(0, 1.0), (100, 2.0)], [(0, 3.0), (50, 4.0)], [(0, 5.0), (100, 6.0)])
    message = (
        r"1 of 3 runs of sac on Pendulum-v1 end early, the longest at frame 100: "
        r"sac/Pendulum-v1/1 at frame 50; .* select runs"
    )
    with pytest.warns(UserWarning, match=message) as caught:
        result = function(data)
    assert result["frames"].tolist()[-1] == 50
    assert caught[0].filename == __file__


def test_runs_of_one_seed_are_counted_with_a_warning(table):
    data = table([(100, 1.0)], [(100, 3.0)]).assign(seed=[7, 7])
    with pytest.warns(UserWarning, match="several runs of sac on Pendulum-v1 have the seed 7"):
        assert learning_curves(data)["runs"].tolist() == [2]
