"""Load, aggregate and plot the tables of runs.

Needs pandas; intervals and interquartile means need scipy and figures matplotlib, which the extra
`plots` installs.
"""

from rlkit_sac.analysis.curves import learning_curves
from rlkit_sac.analysis.external import load_external_runs
from rlkit_sac.analysis.figures import plot_learning_curves, plot_performance_profiles
from rlkit_sac.analysis.improvement import probability_of_improvement
from rlkit_sac.analysis.performance import final_performance
from rlkit_sac.analysis.report import write_report
from rlkit_sac.analysis.runs import load_runs
from rlkit_sac.analysis.scores import aggregate_scores, performance_profiles
from rlkit_sac.analysis.tables import markdown_table, write_table

__all__ = [
    "aggregate_scores",
    "final_performance",
    "learning_curves",
    "load_external_runs",
    "load_runs",
    "markdown_table",
    "performance_profiles",
    "plot_learning_curves",
    "plot_performance_profiles",
    "probability_of_improvement",
    "write_report",
    "write_table",
]
