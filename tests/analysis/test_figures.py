import numpy as np

from rlkit_sac.analysis import plot_learning_curves


def test_line_is_the_mean_and_band_its_interval(table):
    runs = [[(0, 2.0 * k), (100, 10.0 + 2 * k), (200, 20.0 + 2 * k)] for k in range(3)]
    axes = plot_learning_curves(table(*runs)).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[0, 2], [100, 12], [200, 22]])
    corners = axes.collections[0].get_paths()[0].vertices
    # The 95 % interval of three runs is their range.
    assert {(0.0, 0.0), (0.0, 4.0), (200.0, 20.0), (200.0, 24.0)} <= set(map(tuple, corners))
