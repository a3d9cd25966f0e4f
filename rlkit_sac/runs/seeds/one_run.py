"""The run of one seed among several, whose end must not end the others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlkit_sac.errors import ConfigError, RlkitSacError
from rlkit_sac.runs.failures import describe_failure, exit_code, run_path
from rlkit_sac.runs.interrupts import interrupt_behind


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


def run_seed(main: Callable[[Any], Path], config: Any) -> SeedRun:
    """Call ``main(config)`` and catch whatever ends it.

    What went wrong is printed with all its lines, except for a `ConfigError`, which may be the
    same for all seeds.

    Args:
        main: the recipe; it returns the run directory.
        config: its configuration, with a field ``seed``.

    >>> from rlkit_sac.config import EnvConfig
    >>> config = EnvConfig()
    >>> config.seed = 4
    >>> run_seed(lambda config: Path("runs") / config.id, config)
    SeedRun(seed=4, exit_code=0, path='runs/Pendulum-v1', error='')
    """
    try:
        return SeedRun(config.seed, 0, str(main(config)))
    except BaseException as error:
        interrupted = interrupt_behind(error) is not None
        if isinstance(error, SystemExit) and not interrupted:
            raise
        if interrupted:
            summary = "interrupted"
        elif isinstance(error, RlkitSacError):
            summary = str(error)
        else:
            summary = f"{type(error).__name__}: {error}"
        if interrupted or not isinstance(error, ConfigError):
            print(describe_failure(error), file=sys.stderr, flush=True)
        path = run_path(error)
        return SeedRun(config.seed, exit_code(error), None if path is None else str(path), summary)
