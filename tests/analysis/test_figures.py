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
