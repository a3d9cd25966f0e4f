"""What the console says of a run that did not finish, and the exit code that goes with it."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path

from rlkit_sac.errors import ConfigError, EnvironmentFault, RlkitSacError
from rlkit_sac.runs.interrupts import Interrupted, interrupt_behind


def exit_code(error: BaseException) -> int:
    """The exit code for what ended a run.

    Args:
        error: 128 plus the signal for an interrupt, 2 for a `ConfigError`, 1 for all else.

    >>> exit_code(KeyboardInterrupt()), exit_code(ConfigError()), exit_code(ZeroDivisionError())
    (130, 2, 1)
    """
    interrupt = interrupt_behind(error)
    if interrupt is not None:
        return interrupt.exit_code if isinstance(interrupt, Interrupted) else 130
    return 2 if isinstance(error, ConfigError) else 1


def is_bug(error: BaseException) -> bool:
    """Whether the package did not raise this on purpose, so that the traceback is needed.

    >>> is_bug(ConfigError()), is_bug(KeyboardInterrupt()), is_bug(ZeroDivisionError())
    (False, False, True)
    """
    return interrupt_behind(error) is None and not isinstance(error, RlkitSacError)


def describe_failure(error: BaseException) -> str:
    r"""The lines that the console shows: what happened, where the results lie, how to go on.

    A known error is one line per problem. A bug, and the exception behind an `EnvironmentFault`,
    comes with its traceback.

    Args:
        error: the exception; its attribute ``run_path``, if it has one, is the run directory.

    >>> print(describe_failure(ConfigError("--seed: must be >= 0\nunknown option --sed")))
    error: --seed: must be >= 0
    error: unknown option --sed
    """
    if is_bug(error):
        lines = [_traceback(error)]
    elif interrupt_behind(error) is not None:
        lines = ["interrupted"]
    else:
        lines = [f"error: {line}" for line in str(error).splitlines()]
        if isinstance(error, EnvironmentFault) and error.__cause__ is not None:
            lines.insert(0, _traceback(error.__cause__))
    return "\n".join([*lines, *results_so_far(error)])


def results_so_far(error: BaseException) -> list[str]:
    """Lines that say where a failed run lies and, if it has a checkpoint, how to continue it.

    Args:
        error: see `describe_failure`.

    >>> results_so_far(ConfigError())
    []
    """
    path = run_path(error)
    if path is None:
        return []
    lines = [f"results so far: {path}"]
    if any(path.glob("checkpoints/step_*")):
        lines.append(f"continue with: --resume {path}")
    return lines


def run_path(error: BaseException) -> Path | None:
    """The run directory noted on an exception, or on one it was raised from.

    >>> run_path(ConfigError()) is None
    True
    """
    paths = (getattr(link, "run_path", None) for link in _chain(error))
    return next((Path(path) for path in paths if path is not None), None)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip()
