"""What ends a run early: signals, its time limit, and failures, with exit codes and messages."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import shlex
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from rlkit_sac.errors import ConfigError, EnvironmentFault, RlkitSacError


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
    elif (interrupt := interrupt_behind(error)) is not None:
        lines = [str(interrupt) if isinstance(interrupt, TimeLimitReached) else "interrupted"]
    else:
        lines = [f"error: {line}" for line in str(error).splitlines()]
        if isinstance(error, EnvironmentFault) and error.__cause__ is not None:
            lines.insert(0, _traceback(error.__cause__))
    return "\n".join([*lines, *results_so_far(run_path)])


def results_so_far(run_path: Path | None) -> list[str]:
    """Lines that say where an unfinished run lies and, if its checkpoint allows, how to resume it.

    Args:
        run_path: the run directory, if one was begun.

    >>> results_so_far(Path("runs/sac/Ant-v5/first"))
    ['results so far: runs/sac/Ant-v5/first']
    """
    if run_path is None:
        return []
    lines = [f"results so far: {run_path}"]
    if _can_be_resumed(run_path):
        lines.append(f"continue with: {resume_command(run_path)}")
    return lines


def _can_be_resumed(run_path: Path) -> bool:
    """Whether there is a checkpoint, and the replay that the newest one needs."""
    try:
        found = run_path.glob("checkpoints/step_*/checkpoint.json")
        newest = max(found, key=lambda file: int(file.parent.name.removeprefix("step_")))
        needed = json.loads(newest.read_bytes())["segments"]
        return all((run_path / "replay" / name).is_file() for name in needed)
    except (KeyError, OSError, RecursionError, TypeError, ValueError):
        return False


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
    if script.resolve().parent not in (package / "recipes", package.parent / "recipes"):
        return shlex.join([sys.executable, script.as_posix(), "--resume", run])
    program = ["rlkit-sac"] if shutil.which("rlkit-sac") else [sys.executable, "-m", "rlkit_sac"]
    return shlex.join([*program, "resume", run])


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip()


SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """A signal asked the run to end.

    Args:
        number: the signal.

    >>> Interrupted(signal.SIGTERM).exit_code
    143
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


#: Exit code after ``time_limit``; EX_TEMPFAIL of sysexits.h: to be tried again.
TIME_LIMIT_CODE = 75


class TimeLimitReached(KeyboardInterrupt):
    """The run has lasted as long as it may.

    Args:
        seconds: how long that is.

    >>> str(TimeLimitReached(3600.0)), TimeLimitReached(3600.0).exit_code
    ('stopped by time_limit, after 3600 seconds', 75)
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"stopped by time_limit, after {seconds:g} seconds")
        self.exit_code = TIME_LIMIT_CODE


class StopRequest:
    """Whether a signal or a time limit asks the loop to end; see :func:`deferred_signals`."""

    def __init__(self, time_limit: float | None = None) -> None:
        self._number: int | None = None
        self._limit = math.inf if time_limit is None else time_limit
        self._started = time.monotonic()

    def __bool__(self) -> bool:
        return self._number is not None or time.monotonic() - self._started >= self._limit

    def receive(self, number: int) -> None:
        """Remember the signal and say so, or raise `Interrupted` if one was waiting already."""
        if self._number is not None:
            raise Interrupted(number)
        self._number = number
        if multiprocessing.parent_process() is None:  # one of several seeds leaves it to the first
            acknowledge("after this step")

    def obey(self) -> None:
        """Raise `Interrupted` if a signal has come, `TimeLimitReached` if the time is over."""
        if self._number is not None:
            raise Interrupted(self._number)
        if self:
            raise TimeLimitReached(self._limit)


def acknowledge(when: str) -> None:
    """Say that a signal was received; callable in the middle of other output.

    Args:
        when: the run will stop.
    """
    clear_line = "\r\x1b[K" if os.isatty(2) else ""  # of a progress bar, and of ^C
    text = f"{clear_line}stopping {when}; Ctrl-C again stops without saving\n"
    with suppress(OSError):
        os.write(2, text.encode())


@contextmanager
def deferred_signals(time_limit: float | None = None) -> Iterator[StopRequest]:
    """In the block the first SIGINT or SIGTERM is only noted; the second raises `Interrupted`.

    A loop checks after each step, saves, and calls ``obey``. Signals keep their usual effect in
    threads other than the main one, which Python does not let handle them.

    Args:
        time_limit: seconds after which the loop is asked to end as well; ``None`` for no limit.

    >>> with deferred_signals() as stop:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     bool(stop)
    True
    """
    stop = StopRequest(time_limit)
    with handled_by(lambda number, frame: stop.receive(number)):
        yield stop


@contextmanager
def raised_signals() -> Iterator[None]:
    """In the block SIGINT and SIGTERM raise `Interrupted`, so that whatever is open gets closed.

    >>> with raised_signals():
    ...     try:
    ...         signal.raise_signal(signal.SIGTERM)
    ...     except Interrupted as interrupt:
    ...         interrupt.exit_code
    143
    """
    with handled_by(_interrupt):
        yield


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted(number)


@contextmanager
def handled_by(handler: object) -> Iterator[None]:
    """In the block SIGINT and SIGTERM call a function, unless they were ignored before it.

    Args:
        handler: as ``signal.signal`` takes it.
    """
    previous = {}
    try:
        for number in SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:  # a shell's background job, nohup
                previous[number] = signal.signal(number, handler)  # type: ignore[arg-type]
    except ValueError:  # not the main thread
        previous = {}
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)


def interrupt_behind(error: BaseException | None) -> KeyboardInterrupt | None:
    """The interrupt that is behind an exception, if any.

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
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return error
        error = error.__cause__ or error.__context__
    return None
