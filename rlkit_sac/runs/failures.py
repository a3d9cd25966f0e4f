"""What the console shows of a run that did not finish, and the exit code that goes with it."""

from __future__ import annotations

import traceback
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


def needs_traceback(error: BaseException) -> bool:
    """Whether an exception is neither an interrupt nor one that the package raises on purpose.

    >>> needs_traceback(ConfigError()), needs_traceback(ZeroDivisionError())
    (False, True)
    """
    return interrupt_behind(error) is None and not isinstance(error, RlkitSacError)


def describe_failure(error: BaseException, run_path: Path | None) -> str:
    r"""The lines that the console shows: what happened, where the results lie, how to resume.

    A known error is one line per problem. A bug, and the exception behind an `EnvironmentFault`,
    comes with its traceback.

    Args:
        error: the exception.
        run_path: the run directory, if one was begun.

    >>> print(describe_failure(ConfigError("--seed: must be >= 0\nunknown option --sed"), None))
    error: --seed: must be >= 0
    error: unknown option --sed
    """
    if needs_traceback(error):
        lines = [_traceback(error)]
    elif interrupt_behind(error) is not None:
        lines = ["interrupted"]
    else:
        lines = [f"error: {line}" for line in str(error).splitlines()]
        if isinstance(error, EnvironmentFault) and error.__cause__ is not None:
            lines.insert(0, _traceback(error.__cause__))
    return "\n".join([*lines, *results_so_far(run_path)])


def results_so_far(run_path: Path | None) -> list[str]:
    """Lines that say where an unfinished run lies and, if it has a checkpoint, how to resume it.

    Args:
        run_path: the run directory, if one was begun.

    >>> results_so_far(Path("runs/sac/Ant-v5/first"))
    ['results so far: runs/sac/Ant-v5/first']
    """
    if run_path is None:
        return []
    lines = [f"results so far: {run_path}"]
    if any(run_path.glob("checkpoints/step_*")):
        lines.append(f"continue with: --resume {run_path}")
    return lines


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip()
