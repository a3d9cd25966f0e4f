import numpy as np
import pandas as pd

from rlkit_sac.analysis import plot_learning_curves


def evaluations(runs=3, task="Pendulum-v1", recipe="sac", **columns):
    frames = [0, 100, 200]
    parts = [
        {"run": f"{recipe}/{task}/{columns}/{k}", "recipe": recipe, "task": task, "frames": frame}
        for k in range(runs)
        for frame in frames
    ]
    values = np.concatenate([np.array([0.0, 10.0, 20.0]) + 2 * k for k in range(runs)])
    return pd.DataFrame(parts).assign(return_mean=values, **columns)


def test_line_is_the_mean_and_band_its_interval():
    axes = plot_learning_curves(evaluations()).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[0, 2], [100, 12], [200, 22]])
    corners = axes.collections[0].get_paths()[0].vertices
    # The 95 % interval of three runs is their range.
    assert {(0.0, 0.0), (0.0, 4.0), (200.0, 20.0), (200.0, 24.0)} <= set(map(tuple, corners))
