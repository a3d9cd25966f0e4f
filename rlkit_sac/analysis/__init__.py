"""Load, aggregate and plot the tables of runs. Needs pandas; figures need the extra `plots`."""

from rlkit_sac.analysis.curves import learning_curves
from rlkit_sac.analysis.plots import plot_learning_curves
from rlkit_sac.analysis.runs import load_runs

__all__ = ["learning_curves", "load_runs", "plot_learning_curves"]
