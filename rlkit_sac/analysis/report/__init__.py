"""One HTML page about runs."""

from rlkit_sac.analysis.report.page import write_report as write_report
