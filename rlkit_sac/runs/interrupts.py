"""Ctrl-C and SIGTERM: recognized, and deferred until a loop has finished its step."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

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


class StopRequest:
    """Whether a signal has asked the loop to end; see :func:`deferred_signals`."""

    def __init__(self) -> None:
        self._number: int | None = None

    def __bool__(self) -> bool:
        return self._number is not None

    def note(self, number: int) -> None:
        """Remember the signal, or raise `Interrupted` if one was waiting already."""
        if self._number is not None:
            raise Interrupted(number)
        self._number = number

    def obey(self) -> None:
        """Raise `Interrupted` if a signal has come."""
        if self._number is not None:
            raise Interrupted(self._number)


@contextmanager
def deferred_signals() -> Iterator[StopRequest]:
    """In the block the first SIGINT or SIGTERM is only noted; the second raises `Interrupted`.

    A loop checks after each step, saves, and calls ``obey``. Signals keep their usual effect in
    threads other than the main one, which Python does not let handle them.

    >>> with deferred_signals() as stop:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     bool(stop)
    True
    """
    stop = StopRequest()
    with handled_by(lambda number, frame: stop.note(number)):
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

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number)

    with handled_by(interrupt):
        yield


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
