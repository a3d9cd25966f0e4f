"""What a run that ended early says: exit codes and messages."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from rlkit_sac.errors import ConfigError, EnvironmentFault, RlkitSacError
from rlkit_sac.runs.interrupts import exceptions_behind, interrupt_behind
from rlkit_sac.runs.ranks import num_ranks

# The modules that step environments.
_AROUND = ("rlkit_sac.", "gymnasium.core", "gymnasium.utils.", "gymnasium.wrappers.", "torchrl.")


def exit_code(error: BaseException) -> int:
    """The exit code for what ended a run.

    Args:
        error: 128 plus the signal for an interrupt, 75 for the time limit, 2 for a `ConfigError`, 1
            for all else.

    >>> exit_code(KeyboardInterrupt()), exit_code(ConfigError()), exit_code(ZeroDivisionError())
    (130, 2, 1)
    """
    interrupt = interrupt_behind(error)
    if interrupt is not None:
        return getattr(interrupt, "exit_code", 130)
    return 2 if isinstance(error, ConfigError) else 1


def needs_traceback(error: BaseException) -> bool:
    """Whether an exception is neither an interrupt nor one that the package raises on purpose.

    >>> needs_traceback(ConfigError()), needs_traceback(ZeroDivisionError())
    (False, True)
    """
    return interrupt_behind(error) is None and not isinstance(error, RlkitSacError)


def describe_failure(error: BaseException) -> str:
    r"""The lines that the console shows: what happened, where the results lie, how to resume.

    A known error is one line per problem. A bug comes with its traceback, and the exception behind
    an `EnvironmentFault` with that in the environment's own code.

    Args:
        error: the exception.

    >>> print(describe_failure(ConfigError("--seed: must be >= 0\nunknown option --sed")))
    error: --seed: must be >= 0
    error: unknown option --sed
    """
    if needs_traceback(error):
        lines = [_traceback(error)]
    elif (interrupt := interrupt_behind(error)) is not None:
        lines = [str(interrupt) or "interrupted"]
    else:
        lines = [f"error: {line}" for line in str(error).splitlines()]
        if isinstance(error, EnvironmentFault) and error.__cause__ is not None:
            lines = [*_traceback_in_environment(error.__cause__), *lines]
    return "\n".join([*lines, *results_so_far(error)])


def note_results(error: BaseException, command: Callable[[Path], str] | None = None) -> None:
    """Add :func:`results_so_far` to the traceback of an exception."""
    for line in results_so_far(error, command):
        if sys.version_info >= (3, 11):
            error.add_note(line)
        else:
            print(line, file=sys.stderr)


def results_so_far(error: BaseException, command: Callable[[Path], str] | None = None) -> list[str]:
    """Lines on the run that an exception ended: where it lies and, if it was saved, how to resume.

    Args:
        error: the exception.
        command: what resumes a run directory. Default: :func:`resume_command`.

    >>> results_so_far(ConfigError("unknown option --sed"))
    []
    """
    # A `RunDirectory` notes its path on the exception, of which another may have been made since.
    paths = (getattr(each, "run_path", None) for each in exceptions_behind(error))
    run_path = next(filter(None, paths), None)
    if run_path is None:
        return []
    lines = [f"results so far: {run_path}"]
    if any(run_path.glob("checkpoints/step_*/checkpoint.json")):
        lines.append(f"continue with: {(command or resume_command)(run_path)}")
    return lines


def resume_command(run_path: Path, script: Path | None = None) -> str:
    """A command line that resumes a run.

    Args:
        run_path: the run directory.
        script: that began the run. Default: that of this process.

    >>> resume_command(Path("my runs/first"), Path("my_sac.py")).partition(" ")[2]
    "my_sac.py --resume 'my runs/first'"
    """
    script, run = Path(sys.argv[0]) if script is None else script, run_path.as_posix()
    package = Path(__file__).resolve().parents[1]
    python = [sys.executable]
    if num_ranks() > 1:
        python = ["torchrun", "--nproc-per-node", os.environ["LOCAL_WORLD_SIZE"]]
    if script.resolve().parent not in (package / "recipes", package.parent / "recipes"):
        return shlex.join([*python, script.as_posix(), "--resume", run])
    is_installed = num_ranks() == 1 and shutil.which("rlkit-sac")
    program = ["rlkit-sac"] if is_installed else [*python, "-m", "rlkit_sac"]
    return shlex.join([*program, "resume", run])


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip()


def _traceback_in_environment(error: BaseException) -> list[str]:
    """The traceback from the first frame of an environment on; nothing if it has none."""
    trace = error.__traceback__
    if trace is None:  # of a worker, whose traceback is the text
        return [_traceback(error)]
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(_AROUND):
        trace = trace.tb_next
    if trace is None:
        return []
    return ["".join(traceback.format_exception(type(error), error, trace)).rstrip()]
