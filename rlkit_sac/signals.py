"""The signals that ask a program to end: which they are, and who handles them."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType

_HANG_UP: int = getattr(signal, "SIGHUP", 0)  # Windows has none

#: Ctrl-C, the end that a scheduler asks for, and a terminal that closes.
SIGNALS: tuple[int, ...] = tuple(filter(None, (signal.SIGINT, signal.SIGTERM, _HANG_UP)))


class _Handler:
    def __init__(self, first: Callable[[int], None], again: Callable[[int], None]) -> None:
        self._first, self._again = first, again
        self.received: list[int] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.received.append(number)
        if len(self.received) == 1:
            self._first(number)
        elif number != _HANG_UP and len(self.received) - self.received.count(_HANG_UP) > 1:
            self._again(number)


@contextmanager
def handle_signals(
    first: Callable[[int], None], again: Callable[[int], None] | None = None
) -> Iterator[None]:
    """In the block `SIGNALS` call functions, but for those that were ignored before it.

    A terminal that closes, or the end of a session, sends SIGHUP several times and beside other
    signals: together they count as one. A block within another one goes on counting.

    Signals keep their usual effect in threads other than the main one, which Python does not let
    handle them.

    Args:
        first: called with the number of the first signal.
        again: called with that of each later signal other than SIGHUP. Default: ``first``.

    >>> with handle_signals(lambda number: print("save"), lambda number: print("stop")):
    ...     for number in (signal.SIGTERM, signal.SIGINT):
    ...         signal.raise_signal(number)
    save
    stop
    """
    handler = _Handler(first, again or first)
    previous = {}
    try:
        for number in SIGNALS:
            old = signal.getsignal(number)
            if old == signal.SIG_IGN:  # a shell's background job, nohup
                continue
            if isinstance(old, _Handler):
                handler.received = old.received
            previous[number] = signal.signal(number, handler)
    except ValueError:  # not the main thread
        previous = {}
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)


@contextmanager
def end_on_interrupt() -> Iterator[None]:
    """In the block Ctrl-C ends the process like SIGTERM, unless it is handled or ignored.

    Libraries that are being imported may catch a KeyboardInterrupt and go on.
    """
    is_default = signal.getsignal(signal.SIGINT) == signal.default_int_handler
    if not is_default or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def hold_signals() -> Iterator[None]:
    """`SIGNALS` wait until the end of the block; a process started in it begins with them held."""
    if sys.platform == "win32":
        yield
        return
    start_resource_tracker()  # which releases signals
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def start_resource_tracker() -> None:
    """Start the process with which Python tracks semaphores, so that it outlives SIGHUP too."""
    if sys.platform == "win32":
        return
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        resource_tracker.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def leave_signals() -> None:
    """Leave `SIGNALS` to the process that started this one, and release those that it held."""
    for number in SIGNALS:
        # A handler, unlike SIG_IGN, is not passed on to programs that an environment starts.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    release_signals()


def release_signals() -> None:
    """Let a process that was started with signals held receive them."""
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
