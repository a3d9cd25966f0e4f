"""Load, aggregate and plot the tables of runs.

Needs pandas; figures need matplotlib, which the extra `plots` installs.
"""

from rlkit_sac.analysis.curves import area_under_curve as area_under_curve
from rlkit_sac.analysis.curves import frames_to_threshold as frames_to_threshold
from rlkit_sac.analysis.curves import learning_curves as learning_curves
from rlkit_sac.analysis.external import load_external_runs as load_external_runs
from rlkit_sac.analysis.figures import plot_learning_curves as plot_learning_curves
from rlkit_sac.analysis.figures import plot_performance_profiles as plot_performance_profiles
from rlkit_sac.analysis.performance import aggregate_scores as aggregate_scores
from rlkit_sac.analysis.performance import final_performance as final_performance
from rlkit_sac.analysis.performance import performance_profiles as performance_profiles
from rlkit_sac.analysis.performance import probability_of_improvement as probability_of_improvement
from rlkit_sac.analysis.report import write_report as write_report
from rlkit_sac.analysis.runs import load_runs as load_runs
from rlkit_sac.analysis.tables import markdown_table as markdown_table
from rlkit_sac.analysis.tables import write_table as write_table

__all__ = [name for name, value in globals().items() if callable(value)]
