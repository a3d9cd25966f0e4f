"""One HTML page about runs."""

from rlkit_sac.analysis.report.page import write_report

__all__ = ["write_report"]
