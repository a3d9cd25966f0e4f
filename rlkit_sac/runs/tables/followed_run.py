"""The directory of a run of several ranks, for those that do not write its tables."""

from __future__ import annotations

from typing import Any

from rlkit_sac.runs.ranks import announced_run
from rlkit_sac.runs.tables.run_directory import RunDirectory


class FollowedRun(RunDirectory):
    """The run directory as a rank above 0 has it: rank 0 writes the tables and ``run.json``."""

    def __init__(self) -> None:
        self.path = announced_run()
        self.info = {}

    def state_dict(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: Any) -> None:
        """Do nothing."""

    def write(self, table: str, row: Any) -> None:
        """Do nothing."""

    def __enter__(self) -> FollowedRun:
        return self

    def __exit__(self, *error: object) -> None:
        pass
