"""The early end of a run by a signal or its time limit, and messages on failures."""

from __future__ import annotations

import math
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from rlkit_sac.errors import error_text
from rlkit_sac.runs.machine import launcher
from rlkit_sac.signals import handle_signals

#: Environment variable of a run that is one of several: the file for how it has ended.
ONE_OF_SEVERAL = "RLKIT_SAC_ONE_OF_SEVERAL"


#: Exit code after ``time_limit``; EX_TEMPFAIL of sysexits.h: to be tried again.
TIME_LIMIT_CODE = 75


class Interrupted(KeyboardInterrupt):
    """A signal, or the time limit, asked the run to end.

    Args:
        exit_code: 128 plus the signal, or :data:`TIME_LIMIT_CODE`.
        text: the message on the console.

    >>> Interrupted(143).exit_code
    143
    """

    def __init__(self, exit_code: int, text: str = "interrupted") -> None:
        super().__init__(text)
        self.exit_code = exit_code


class StopRequest:
    """A request to end the loop, by a signal or a time limit; see :func:`deferred_signals`."""

    def __init__(self, time_limit: float | None = None) -> None:
        self._received = 0  # the exit code
        self._compiling = False
        self._limit = math.inf if time_limit is None else time_limit
        self._started = time.monotonic()

    @property
    def exit_code(self) -> int:
        """The exit code for the signal or time limit; 0 without a request."""
        is_over = time.monotonic() - self._started >= self._limit
        return self._received or (TIME_LIMIT_CODE if is_over else 0)

    def receive(self, number: int) -> None:
        """Remember a signal and say so; raise `Interrupted` in a block of :meth:`compiling`."""
        self._received = 128 + number
        if self._compiling:
            self._end_compiling()
        if ONE_OF_SEVERAL not in os.environ:  # which leaves it to the first
            acknowledge("after this step")

    def follow(self, exit_code: int) -> None:
        """Take over the exit code of another process, if it has one."""
        self._received = exit_code or self._received

    def obey(self) -> None:
        """Raise `Interrupted` if a signal has come or the time is over."""
        if code := self.exit_code:
            limit = f"stopped by time_limit, after {self._limit:g} seconds"
            raise Interrupted(code, limit if code == TIME_LIMIT_CODE else "interrupted")

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Let a signal raise `Interrupted` at once in the block, also one that came before it.

        Compiling takes up to minutes, and in the middle of a step the run cannot be saved: it was
        at the end of the step before.
        """
        self._compiling = True
        self._end_compiling()
        try:
            yield
        finally:
            self._compiling = False
            self._end_compiling()  # PyTorch may have made another exception of the first

    def _end_compiling(self) -> None:
        if self._received:
            raise Interrupted(self._received, "interrupted while compiling; try --compile false")


def acknowledge(when: str) -> None:
    """Say that a signal was received; callable in the middle of other output.

    Args:
        when: the moment at which the run will stop, as text.
    """
    clear_line = "\r\x1b[K" if os.isatty(2) else ""  # of a progress bar, and of ^C
    text = f"{clear_line}stopping {when}; Ctrl-C again stops without saving\n"
    with suppress(OSError):
        os.write(2, text.encode())


@contextmanager
def deferred_signals(time_limit: float | None = None) -> Iterator[StopRequest]:
    """Only record the first signal in the block; a second one raises `Interrupted`.

    A loop checks after each step, saves, and calls ``obey``.

    Args:
        time_limit: seconds after which the loop is asked to end as well; ``None`` for no limit.

    >>> import signal
    >>> with deferred_signals() as stop:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     stop.exit_code
    143
    """
    stop = StopRequest(time_limit)
    with handle_signals(stop.receive, _interrupt):
        yield stop


def raised_signals() -> AbstractContextManager[None]:
    """Let signals raise `Interrupted` in the block, so that whatever is open gets closed.

    >>> import signal
    >>> with raised_signals():
    ...     try:
    ...         signal.raise_signal(signal.SIGTERM)
    ...     except Interrupted as interrupt:
    ...         interrupt.exit_code
    143
    """
    return handle_signals(_interrupt)


def _interrupt(number: int) -> None:
    raise Interrupted(128 + number)


def interrupt_behind(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the interrupt that is behind an exception, if any.

    A KeyboardInterrupt that arrives inside one of TensorDict's context managers may come out as
    another exception with the interrupt as its context.

    >>> try:
    ...     try:
    ...         raise KeyboardInterrupt
    ...     finally:
    ...         raise RuntimeError("cleaning up failed")
    ... except RuntimeError as error:
    ...     interrupt_behind(error)
    KeyboardInterrupt()
    """
    found = (each for each in exceptions_behind(error) if isinstance(each, KeyboardInterrupt))
    return next(found, None)


def exceptions_behind(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, the exception from which it was raised, and so on.

    >>> list(exceptions_behind(ValueError("no")))
    [ValueError('no')]
    """
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def describe_failure(error: BaseException) -> str:
    """Return the lines that the console shows: what happened, where the results lie, how to resume.

    Args:
        error: an interrupt, or an error of the package.

    >>> from rlkit_sac.errors import ConfigError
    >>> print(describe_failure(ConfigError("--seed: must be >= 0", "unknown option --sed")))
    error: --seed: must be >= 0
    error: unknown option --sed
    """
    interrupt = interrupt_behind(error)
    text = error_text(error) if interrupt is None else str(interrupt) or "interrupted"
    return "\n".join([text, *results_so_far(error)])


def note_results(error: BaseException, command: Callable[[Path], str] | None = None) -> None:
    """Add :func:`results_so_far` to the traceback of an exception."""
    for line in results_so_far(error, command):
        if sys.version_info >= (3, 11):
            error.add_note(line)
        else:
            print(line, file=sys.stderr)


def results_so_far(error: BaseException, command: Callable[[Path], str] | None = None) -> list[str]:
    """Return lines on a run that an exception ended: its path, and how to resume it if saved.

    Args:
        error: the exception.
        command: a function that returns the command to resume a run. Default:
            :func:`resume_command`.

    >>> results_so_far(ValueError("no"))
    []
    """
    # A `RunDirectory` sets its path on the exception, which may have been wrapped since.
    paths = (getattr(cause, "run_path", None) for cause in exceptions_behind(error))
    run_path = next(filter(None, paths), None)
    if run_path is None:
        return []
    lines = [f"results so far: {run_path}"]
    if any(run_path.glob("checkpoints/step_*/checkpoint.json")):
        lines.append(f"continue with: {(command or resume_command)(run_path)}")
    return lines


def resume_command(run_path: Path, script: Path | None = None) -> str:
    """Return a command line that resumes a run.

    Args:
        run_path: the run directory.
        script: the script that began the run. Default: the script of this process.

    >>> resume_command(Path("my runs/first"), Path("my_sac.py")).partition(" ")[2]
    "my_sac.py --resume 'my runs/first'"
    """
    script, run = Path(sys.argv[0]) if script is None else script, run_path.as_posix()
    package = Path(__file__).resolve().parents[1]
    python = launcher()
    if script.resolve().parent not in (package / "recipes", package.parent / "recipes"):
        return shlex.join([*python, script.as_posix(), "--resume", run])
    is_installed = python == [sys.executable] and shutil.which("rlkit-sac")
    program = ["rlkit-sac"] if is_installed else [*python, "-m", "rlkit_sac"]
    return shlex.join([*program, "resume", run])
