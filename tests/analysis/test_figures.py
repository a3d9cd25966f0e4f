import sys

import numpy as np
import pandas as pd
import pytest

from rlkit_sac.analysis import (
    learning_curves,
    performance_profiles,
    plot_learning_curves,
    plot_performance_profiles,
)
from rlkit_sac.errors import ConfigError


def evaluations(runs=3, task="Pendulum-v1", recipe="sac", **columns):
    frames = [0, 100, 200]
    parts = [
        {"run": f"{recipe}/{task}/{columns}/{k}", "recipe": recipe, "task": task, "frames": frame}
        for k in range(runs)
        for frame in frames
    ]
    values = np.concatenate([np.array([0.0, 10.0, 20.0]) + 2 * k for k in range(runs)])
    return pd.DataFrame(parts).assign(return_mean=values, **columns)


def legend(figure):
    return figure.legends[0]


def labels(figure):
    return [text.get_text() for text in legend(figure).get_texts()]


def test_line_is_the_mean_and_band_its_interval():
    axes = plot_learning_curves(evaluations()).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[0, 2], [100, 12], [200, 22]])
    corners = axes.collections[0].get_paths()[0].vertices
    # The 95 % interval of three runs is their range.
    assert {(0.0, 0.0), (0.0, 4.0), (200.0, 20.0), (200.0, 24.0)} <= set(map(tuple, corners))


@pytest.mark.parametrize("statistic", ["mean", "iqm"])
def test_the_figure_shows_what_learning_curves_computes(statistic):
    data = evaluations(runs=6)
    options = {"statistic": statistic, "confidence": 0.5, "frames": 5}
    curve = learning_curves(data, **options)
    axes = plot_learning_curves(data, **options).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_xydata(), curve[["frames", "value"]])
    corners = set(map(tuple, axes.collections[0].get_paths()[0].vertices))
    assert set(curve[["frames", "low"]].itertuples(index=False, name=None)) <= corners
    assert set(curve[["frames", "high"]].itertuples(index=False, name=None)) <= corners


def test_axes_carry_units_and_the_legend_says_what_line_and_band_are():
    figure = plot_learning_curves(evaluations())
    axes = figure.axes[0]
    assert axes.get_xlabel() == "frames (environment steps)"
    assert axes.get_ylabel() == "return (deterministic evaluation)"
    assert axes.get_title() == "Pendulum-v1"
    assert labels(figure) == ["sac (3 runs)"]
    assert legend(figure).get_title().get_text() == "mean over runs, band: 95% bootstrap interval"
    figure = plot_learning_curves(evaluations(), statistic="iqm", confidence=0.9)
    title = "interquartile mean over runs, band: 90% bootstrap interval"
    assert legend(figure).get_title().get_text() == title


def test_one_run_is_a_thinner_line_without_a_band(monkeypatch):
    many = plot_learning_curves(evaluations(runs=3))
    monkeypatch.setitem(sys.modules, "scipy.stats", None)  # not needed for one run
    one = plot_learning_curves(evaluations(runs=1))
    assert labels(one) == ["sac (1 run)"]
    assert not legend(one).get_title().get_text()
    assert not one.axes[0].collections
    assert one.axes[0].lines[0].get_linewidth() < many.axes[0].lines[0].get_linewidth()


def test_each_group_is_a_line_that_differs_in_look():
    data = pd.concat([evaluations(recipe=f"recipe{k}") for k in range(9)])
    axes = plot_learning_curves(data).axes[0]
    assert len(axes.lines) == 9
    assert len({(line.get_color(), line.get_linestyle()) for line in axes.lines}) == 9


def test_settings_are_lines_named_by_their_values():
    settings = [{"update.lr_actor": 0.001}, {"update.lr_actor": 3e-4}]
    data = pd.concat([evaluations(**setting) for setting in settings])
    figure = plot_learning_curves(data, by=["recipe", "update.lr_actor"])
    assert labels(figure) == ["sac, lr_actor = 0.0003 (3 runs)", "sac, lr_actor = 0.001 (3 runs)"]


def test_each_task_is_a_panel_in_which_a_group_looks_the_same():
    data = pd.concat(
        [
            evaluations(task="B", recipe="x"),
            *(evaluations(task=task, recipe="y", runs=2) for task in "ABCD"),
        ]
    )
    figure = plot_learning_curves(data, title="Both")
    assert [axes.get_title() for axes in figure.axes] == ["A", "B", "C", "D"]
    assert [len(axes.lines) for axes in figure.axes] == [1, 2, 1, 1]
    (y_alone,) = figure.axes[0].lines
    assert y_alone.get_color() == figure.axes[1].lines[1].get_color()
    assert y_alone.get_color() != figure.axes[1].lines[0].get_color()
    assert labels(figure) == ["x (3 runs)", "y (2 runs)"]
    assert figure.get_suptitle() == "Both"


def test_the_legend_gives_the_range_where_tasks_differ_in_runs():
    data = pd.concat([evaluations(task="A", runs=1), evaluations(task="B", runs=3)])
    assert labels(plot_learning_curves(data)) == ["sac (1 to 3 runs)"]


@pytest.mark.parametrize("groups", [1, 2, 7])
@pytest.mark.parametrize("tasks", [1, 2, 4])
def test_the_legend_covers_no_panel_and_stays_inside_the_figure(groups, tasks):
    settings = [{"a.very_long_name_of_a_setting": float(k)} for k in range(groups)]
    parts = [evaluations(task=f"T{t}", **setting) for setting in settings for t in range(tasks)]
    figure = plot_learning_curves(pd.concat(parts), by="a.very_long_name_of_a_setting")
    figure.draw_without_rendering()
    box = legend(figure).get_window_extent()
    assert 0 <= box.x0 <= box.x1 <= figure.bbox.width
    assert all(axes.get_tightbbox().y0 >= box.y1 for axes in figure.axes)
    assert all(axes.get_window_extent().height > 100 for axes in figure.axes)


def test_runs_that_cannot_be_compared_are_lines_of_their_own(table):
    full = [(k, float(k)) for k in (100, 200, 300, 400)]
    data = pd.concat(
        [
            table(full, full, full[:2], [(400, 7.0)], [(150, 1.0), (300, 2.0), (400, 3.0)]),
            table(full, full, recipe="x"),
        ]
    )
    message = (
        r"differ in length or interval are drawn as lines of their own: sac on Pendulum-v1: "
        r"2 to frame 400 \(sac/Pendulum-v1/0\), 1 to frame 400 \(sac/Pendulum-v1/3\), .*, "
        r"1 to frame 200 \(sac/Pendulum-v1/2\); select runs"
    )
    with pytest.warns(UserWarning, match=message) as caught:
        figure = plot_learning_curves(data)
    assert len(caught) == 1
    lines = [line.get_xydata().tolist() for line in figure.axes[0].lines]
    assert [len(line) for line in lines] == [4, 1, 3, 2, 4]
    assert lines[1] == [[400, 7]]
    assert lines[3] == [[100, 100], [200, 200]]
    assert len({line.get_color() for line in figure.axes[0].lines[:4]}) == 1
    assert labels(figure) == ["sac (5 runs, 4 lines)", "x (2 runs)"]
    assert len(figure.axes[0].collections) == 2  # bands of the two means


def test_runs_that_share_no_frames_are_drawn(table):
    data = table([(1, 1.0), (2, 1.0)], [(98, 1.0), (99, 1.0)], [(100, 1.0)])
    with pytest.warns(UserWarning, match="as lines of their own"):
        assert len(plot_learning_curves(data).axes[0].lines) == 3


def test_frames_of_episodes_need_not_be_the_same_nor_intervals_if_frames_are_given(table, recwarn):
    episodes = table([(13, 1.0), (31, 1.0), (95, 1.0)], [(20, 1.0), (44, 1.0), (100, 1.0)])
    assert labels(plot_learning_curves(episodes)) == ["sac (2 runs)"]
    data = table([(50, 1.0), (100, 1.0)], [(100, 3.0)], [(25 * k, 1.0) for k in range(1, 5)])
    assert labels(plot_learning_curves(data, frames=[100])) == ["sac (3 runs)"]
    assert not recwarn.list


def test_runs_without_any_value_are_named(table):
    data = table([(0, 1.0), (10, np.nan)], [(0, np.nan), (10, np.nan)])
    with pytest.warns(
        UserWarning, match=r"1 of 2 runs left out, .* no value of return_mean: sac/Pendulum-v1/1"
    ):
        figure = plot_learning_curves(data)
    assert labels(figure) == ["sac (1 run)"]
    with pytest.raises(ConfigError, match="the table has no rows"):
        plot_learning_curves(data[:0])


def test_episodes_are_dots_of_their_own_group_and_task():
    episodes = pd.DataFrame(
        {"recipe": "sac", "task": ["Pendulum-v1", "Other-v0"], "frames": 7, "return": [-5.0, 0.0]}
    )
    figure = plot_learning_curves(evaluations(runs=1), episodes=episodes)
    assert figure.axes[0].collections[0].get_offsets().tolist() == [[7.0, -5.0]]
    assert labels(figure) == ["sac (1 run)", "training episodes"]
    with pytest.raises(ConfigError, match=r"no column lr"):
        plot_learning_curves(evaluations(lr=1.0), by="lr", episodes=episodes)


def test_episodes_of_a_missing_setting_are_drawn():
    data = evaluations(runs=1, setting=np.nan)
    episodes = data.rename(columns={"return_mean": "return"})
    axes = plot_learning_curves(data, by="setting", episodes=episodes).axes[0]
    assert len(axes.collections[0].get_offsets()) == 3


def test_another_column_can_be_plotted():
    data = evaluations().rename(columns={"return_mean": "alpha"})
    assert plot_learning_curves(data, column="alpha").axes[0].get_ylabel() == "alpha"


@pytest.mark.parametrize("suffix", ["png", "pdf"])
def test_the_figure_is_saved_where_asked(tmp_path, suffix):
    path = tmp_path / "figures" / f"learning_curve.{suffix}"
    plot_learning_curves(evaluations(), path=path)
    assert path.read_bytes()[:4] in (b"\x89PNG", b"%PDF")


@pytest.mark.parametrize("module", ["matplotlib.figure", "scipy.stats"])
def test_what_is_not_installed_is_named_with_the_line_that_installs_it(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=r"pip install 'rlkit_sac\[plots\]'"):
        plot_learning_curves(evaluations())


def test_profiles_are_steps_with_bands(table, tmp_path):
    data = pd.concat(
        [
            table([(1, 2.0)], [(1, 6.0)], recipe="x"),
            table([(1, 4.0)], recipe="y"),
        ]
    )
    profiles = performance_profiles(data, {"Pendulum-v1": (0, 10)}, confidence=0.4)
    figure = plot_performance_profiles(profiles, title="Both", path=tmp_path / "profiles.png")
    (axes,) = figure.axes
    assert [line.get_xydata().tolist() for line in axes.lines] == [
        [[0.2, 0.5], [0.4, 0.5], [0.6, 0.0]],
        [[0.2, 1.0], [0.4, 0.0], [0.6, 0.0]],
    ]
    assert {line.get_drawstyle() for line in axes.lines} == {"steps-post"}
    (band,) = axes.collections  # a single run has none
    assert {(0.2, 0.5), (0.6, 0.5), (0.6, 0.0)} <= set(map(tuple, band.get_paths()[0].vertices))
    assert labels(figure) == ["x (2 runs)", "y (1 run)"]
    assert figure.get_suptitle() == "Both"
    assert (tmp_path / "profiles.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(ConfigError, match="the table has no column tau"):
        plot_performance_profiles(data)
