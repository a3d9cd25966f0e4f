import warnings

import numpy as np
import pandas as pd
import pytest

from rlkit_sac.analysis import aggregate_scores, final_performance, learning_curves
from rlkit_sac.analysis.groups import describe, select_rows, split
from rlkit_sac.errors import ConfigError


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


def test_groups_are_named_in_words():
    assert describe({"recipe": "sac"}) == "sac"
    assert describe({"task": "Ant"}) == "Ant"
    assert describe({}) == "all runs"
    settings = {"update.lr_actor": 3e-4, "loss.max_alpha": None, "loss.fixed_alpha": True}
    assert describe(settings) == "lr_actor = 0.0003, max_alpha = null, fixed_alpha = true"
    assert describe({"a.lr": 1, "b.lr": 2, "seed": 3}) == "a.lr = 1, b.lr = 2, seed = 3"


def test_a_missing_setting_is_refused_with_the_way_to_load_it(table):
    with pytest.raises(ConfigError, match=r"no column update\.lr; .*config=\['update\.lr'\]\)"):
        select_rows(table([(0, 1.0)]), ["frames"], ["update.lr"])


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


def test_unfinished_runs_that_end_early_come_with_their_status_and_advice(table):
    data = table([(0, 1.0), (100, 2.0)], [(0, 3.0), (50, 4.0)])
    data["status"] = np.where(data["run"].str.endswith("1"), "failed", "finished")
    message = (
        r'frame 50 \(status failed\); .*data\[data\["status"\] == "finished"\] leaves them out'
    )
    with pytest.warns(UserWarning, match=message):
        learning_curves(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        curve = learning_curves(data[data["status"] == "finished"])
    assert curve["frames"].tolist() == [0, 100]


def test_runs_that_end_at_about_the_same_frames_bring_no_warning(table, recwarn):
    data = table([(0, 1.0), (100, 2.0)], [(0, 3.0), (90, 4.0)]).assign(status="running")
    learning_curves(data)
    assert not recwarn.list


def test_runs_of_one_seed_are_counted_with_a_warning(table):
    data = table([(100, 1.0)], [(100, 3.0)]).assign(seed=[7, 7])
    with pytest.warns(UserWarning, match="several runs of sac on Pendulum-v1 have the seed 7"):
        assert learning_curves(data)["runs"].tolist() == [2]


def test_warnings_point_to_the_line_that_calls_the_analysis(table):
    data = table([(100, 1.0)], [(100, 3.0)]).assign(seed=[7, 7])
    with pytest.warns(UserWarning, match="have the seed 7") as caught:
        aggregate_scores(data, {"Pendulum-v1": (0, 1)})
    assert caught[0].filename == __file__


def test_runs_of_one_seed_with_different_settings_are_told_apart(table, recwarn):
    data = table([(100, 1.0)], [(100, 3.0)]).assign(seed=[7, 7], lr=[0.1, 0.2])
    assert learning_curves(data, by="lr")["runs"].tolist() == [1, 1]
    assert learning_curves(data, by="seed")["runs"].tolist() == [2]
    assert not recwarn.list
