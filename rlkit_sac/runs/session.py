"""What a run is started with besides its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rlkit_sac.errors import ConfigError
from rlkit_sac.runs.checkpoint import Checkpoint
from rlkit_sac.runs.directory import RunDirectory


@dataclass
class Session:
    """What a run is started with besides its options, handed on from the entry point.

    Attributes:
        callback: called with the :class:`TrainingRun` at the end of each step; true ends the run.
        env_function: whether a Python function makes the environments, which no option names.
        start: the checkpoint that the run resumes from.
        directory: the directory of the run to resume.
    """

    callback: Callable[[Any], object] | None = None
    env_function: bool = False
    start: Checkpoint | None = None
    directory: RunDirectory | None = None

    def find_start(self, path: str) -> Mapping[str, Any]:
        """Find the checkpoint to resume, and return the options of its run by dotted key.

        Args:
            path: a run directory, or one of its checkpoints.

        Raises:
            ConfigError: as :meth:`Checkpoint.find`, for a damaged ``run.json``, and for a run whose
                environments a function made that is not there.
        """
        start = Checkpoint.find(path)
        directory = RunDirectory(start.run_path)
        if directory.info.get("env_function") and not self.env_function:
            go_on = f"rlkit_sac.Run({start.run_path.as_posix()!r}, env=function).resume()"
            raise ConfigError(
                f"a Python function made the environments of {start.run_path}: use {go_on}"
            )
        self.start, self.directory = start, directory
        return start.config
