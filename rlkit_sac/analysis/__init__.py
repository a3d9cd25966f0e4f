"""Load, aggregate and plot the tables of runs.

Needs pandas; intervals and interquartile means need scipy and figures matplotlib, which the extra
`plots` installs.
"""

from rlkit_sac.analysis.curves import learning_curves, plot_learning_curves
from rlkit_sac.analysis.external import load_external_runs
from rlkit_sac.analysis.performance import aggregate_scores, final_performance
from rlkit_sac.analysis.runs import load_runs
from rlkit_sac.analysis.tables import markdown_table, write_table

__all__ = [
    "aggregate_scores",
    "final_performance",
    "learning_curves",
    "load_external_runs",
    "load_runs",
    "markdown_table",
    "plot_learning_curves",
    "write_table",
]
