"""The run of one seed among several, whose failure must not end the others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlkit_sac.errors import ConfigError, RlkitSacError
from rlkit_sac.runs.failures import describe_failure, exit_code
from rlkit_sac.runs.interrupts import interrupt_behind
from rlkit_sac.runs.tables.run_directory import RunDirectory


@dataclass(frozen=True)
class SeedRun:
    """How the run of one seed ended.

    >>> SeedRun(seed=3, exit_code=1, error="killed by SIGKILL").path is None
    True
    """

    seed: int
    exit_code: int
    path: str | None = None
    """Its run directory, if one was made and is known."""
    error: str = ""
    """What went wrong; empty after exit code 0."""

    @property
    def ending(self) -> str:
        """``finished``, ``failed`` or ``interrupted``."""
        if self.exit_code > 128:
            return "interrupted"
        return "failed" if self.exit_code else "finished"


def run_seed(main: Callable[[Any], Path], config: Any) -> SeedRun:
    """Call ``main(config)`` and catch whatever ends it.

    A failure is printed with all its lines, except for a `ConfigError`, which may be the same for
    all seeds.

    Args:
        main: the recipe; it returns the run directory.
        config: its configuration, with a field ``seed``.

    >>> from rlkit_sac.config import EnvConfig
    >>> config = EnvConfig()
    >>> config.seed = 4
    >>> run_seed(lambda config: Path("runs") / config.id, config)
    SeedRun(seed=4, exit_code=0, path='runs/Pendulum-v1', error='')
    """
    RunDirectory.last_begun = None
    try:
        return SeedRun(config.seed, 0, str(main(config)))
    except BaseException as error:
        interrupted = interrupt_behind(error) is not None
        if isinstance(error, SystemExit) and not interrupted:
            raise
        path = RunDirectory.last_begun
        if interrupted or not isinstance(error, ConfigError):
            print(describe_failure(error, path), file=sys.stderr, flush=True)
        kind = "" if isinstance(error, RlkitSacError) else f"{type(error).__name__}: "
        return SeedRun(
            config.seed, exit_code(error), None if path is None else str(path), f"{kind}{error}"
        )
