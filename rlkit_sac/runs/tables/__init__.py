"""What a run writes and shows: its directory, tables, loggers and progress."""

from rlkit_sac.runs.tables.log import TrainingLog
from rlkit_sac.runs.tables.progress import ProgressBar
from rlkit_sac.runs.tables.report import report
from rlkit_sac.runs.tables.run_directory import RunDirectory

__all__ = ["ProgressBar", "RunDirectory", "TrainingLog", "report"]
