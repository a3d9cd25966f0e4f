"""What asks a run to end early: signals and its time limit."""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from rlkit_sac.signals import on_signals


class Interrupted(KeyboardInterrupt):
    """A signal asked the run to end.

    Args:
        number: the signal.
        text: what the console says.

    >>> Interrupted(15).exit_code
    143
    """

    def __init__(self, number: int, text: str = "interrupted") -> None:
        super().__init__(text)
        self.exit_code = 128 + number


#: Exit code after ``time_limit``; EX_TEMPFAIL of sysexits.h: to be tried again.
TIME_LIMIT_CODE = 75
_TIME_OVER = 1_000


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
        self._compiling = False
        self._limit = math.inf if time_limit is None else time_limit
        self._started = time.monotonic()

    def __bool__(self) -> bool:
        return self._number is not None or time.monotonic() - self._started >= self._limit

    def receive(self, number: int) -> None:
        """Remember a signal and say so; raise `Interrupted` in a block of :meth:`compiling`."""
        self._number = number
        if self._compiling:
            self._end_compiling()
        if multiprocessing.parent_process() is None:  # one of several seeds leaves it to the first
            acknowledge("after this step")

    @property
    def reason(self) -> int:
        """0 to go on, the number of a signal, or above all of these if the time is over."""
        return self._number or (_TIME_OVER if self else 0)

    def follow(self, reason: int) -> None:
        """Take over the reason of another process."""
        if reason == _TIME_OVER:
            self._started = -math.inf
        elif reason:
            self._number = reason

    def obey(self) -> None:
        """Raise `Interrupted` if a signal has come, `TimeLimitReached` if the time is over."""
        if self._number is not None:
            raise Interrupted(self._number)
        if self:
            raise TimeLimitReached(self._limit)

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """In the block a signal raises `Interrupted` at once, also one that came before it.

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
        if self._number is not None:
            raise Interrupted(self._number, "interrupted while compiling; try --compile false")


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
    """In the block the first signal is only noted; a second one raises `Interrupted`.

    A loop checks after each step, saves, and calls ``obey``.

    Args:
        time_limit: seconds after which the loop is asked to end as well; ``None`` for no limit.

    >>> import signal
    >>> with deferred_signals() as stop:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     bool(stop)
    True
    """
    stop = StopRequest(time_limit)
    with on_signals(stop.receive, _interrupt):
        yield stop


def raised_signals() -> AbstractContextManager[None]:
    """In the block signals raise `Interrupted`, so that whatever is open gets closed.

    >>> import signal
    >>> with raised_signals():
    ...     try:
    ...         signal.raise_signal(signal.SIGTERM)
    ...     except Interrupted as interrupt:
    ...         interrupt.exit_code
    143
    """
    return on_signals(_interrupt)


def _interrupt(number: int) -> None:
    raise Interrupted(number)


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
    found = (each for each in exceptions_behind(error) if isinstance(each, KeyboardInterrupt))
    return next(found, None)


def exceptions_behind(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, that from which it was raised, and so on.

    >>> list(exceptions_behind(ValueError("no")))
    [ValueError('no')]
    """
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
