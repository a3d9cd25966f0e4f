import sys

import numpy as np
import pandas as pd
import pytest

from rlkit_sac.analysis import plot_learning_curves
from rlkit_sac.errors import ConfigError


def evaluations(runs=3, task="Pendulum-v1", recipe="sac"):
    frames = [0, 100, 200]
    parts = [
        {"run": f"{recipe}/{task}/{k}", "recipe": recipe, "task": task, "frames": frame}
        for k in range(runs)
        for frame in frames
    ]
    values = np.concatenate([np.array([0.0, 10.0, 20.0]) + 2 * k for k in range(runs)])
    return pd.DataFrame(parts).assign(return_mean=values)


def labels(figure):
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def test_line_is_the_mean_and_band_one_standard_deviation_to_either_side():
    axes = plot_learning_curves(evaluations()).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[0, 2], [100, 12], [200, 22]])
    corners = axes.collections[0].get_paths()[0].vertices
    # The runs differ by -2, 0 and 2 from their mean: a standard deviation of 2.
    assert {(0.0, 0.0), (0.0, 4.0), (200.0, 20.0), (200.0, 24.0)} <= set(map(tuple, corners))


def test_axes_carry_units_and_the_legend_says_what_the_band_is():
    figure = plot_learning_curves(evaluations())
    axes = figure.axes[0]
    assert axes.get_xlabel() == "frames (environment steps)"
    assert axes.get_ylabel() == "return (deterministic evaluation)"
    assert axes.get_title() == "Pendulum-v1"
    assert labels(figure) == ["sac (mean ± std of 3 runs)"]


def test_one_run_is_a_thinner_line_without_a_band():
    one = plot_learning_curves(evaluations(runs=1))
    many = plot_learning_curves(evaluations(runs=3))
    assert labels(one) == ["sac (1 run)"]
    assert not one.axes[0].collections
    assert one.axes[0].lines[0].get_linewidth() < many.axes[0].lines[0].get_linewidth()


def test_each_recipe_and_task_is_a_line_that_differs_in_look():
    data = pd.concat([evaluations(task=f"Task-v{k}") for k in range(9)])
    axes = plot_learning_curves(data).axes[0]
    assert len(axes.lines) == 9
    assert len({(line.get_color(), line.get_linestyle()) for line in axes.lines}) == 9


def test_episodes_are_dots_of_their_own_recipe_and_task():
    episodes = pd.DataFrame(
        {"recipe": "sac", "task": ["Pendulum-v1", "Other-v0"], "frames": 7, "return": [-5.0, 0.0]}
    )
    figure = plot_learning_curves(evaluations(runs=1), episodes=episodes)
    assert figure.axes[0].collections[0].get_offsets().tolist() == [[7.0, -5.0]]
    assert "sac (training episodes)" in labels(figure)


@pytest.mark.parametrize("suffix", ["png", "pdf"])
def test_the_figure_is_saved_where_asked(tmp_path, suffix):
    path = tmp_path / "figures" / f"learning_curve.{suffix}"
    plot_learning_curves(evaluations(), path=path)
    assert path.read_bytes()[:4] in (b"\x89PNG", b"%PDF")


def test_missing_matplotlib_is_named_with_the_line_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match=r"pip install 'rlkit_sac\[plots\]'"):
        plot_learning_curves(evaluations())
