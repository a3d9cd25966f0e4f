"""A call of `rlkit_sac.train`, as the recipe that it runs sees it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class PythonSession:
    """What a recipe that Python runs does differently: it raises its errors, and calls back.

    Attributes:
        callback: called with the :class:`~rlkit_sac.runs.TrainingRun` at the end of each step; true
            ends the run.
        makes_env: whether a function of the caller makes the environments.
        arguments: those of a :class:`~rlkit_sac.Run` that resumes the run, after its path.
        path: the run directory, once the recipe has ended.
    """

    callback: Callable[[Any], object] | None = None
    makes_env: bool = False
    arguments: str = ""
    path: Path | None = None


#: The session whose recipe is running, if Python runs it.
SESSION: ContextVar[PythonSession | None] = ContextVar("session", default=None)
