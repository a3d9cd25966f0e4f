"""Handling, holding and ignoring of the signals that ask a program to end."""

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


class _SignalHandler:
    def __init__(self, on_first: Callable[[int], None], on_later: Callable[[int], None]) -> None:
        self._on_first, self._on_later = on_first, on_later
        self.received: list[int] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.received.append(number)
        if len(self.received) == 1:
            self._on_first(number)
        elif number != _HANG_UP and len(self.received) - self.received.count(_HANG_UP) > 1:
            self._on_later(number)


@contextmanager
def handle_signals(
    on_first: Callable[[int], None], on_later: Callable[[int], None] | None = None
) -> Iterator[None]:
    """Call functions for `SIGNALS` in the block, except for signals that are ignored.

    A closing terminal sends SIGHUP several times, and beside other signals: together they count as
    one. A block within another one goes on counting.

    Outside the main thread signals keep their usual effect, since Python lets no other thread
    handle them.

    Args:
        on_first: the function that is called with the number of the first signal.
        on_later: the function that is called with the number of each later signal other than
            SIGHUP. Default: ``on_first``.

    >>> with handle_signals(lambda number: print("save"), lambda number: print("stop")):
    ...     for number in (signal.SIGTERM, signal.SIGINT):
    ...         signal.raise_signal(number)
    save
    stop
    """
    handler = _SignalHandler(on_first, on_later or on_first)
    previous = {}
    try:
        for number in SIGNALS:
            old = signal.getsignal(number)
            if old == signal.SIG_IGN:  # in a background job of a shell, or under nohup
                continue
            if isinstance(old, _SignalHandler):
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
    """Let Ctrl-C end the process in the block, as SIGTERM does, unless it is handled or ignored.

    A KeyboardInterrupt is not enough: libraries may catch it while they are imported.
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
    """Hold `SIGNALS` until the end of the block; a process started in it begins with them held."""
    if sys.platform == "win32":
        yield
        return
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        resource_tracker.ensure_running()  # whose start releases signals
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def start_resource_tracker() -> None:
    """Start the process in which Python tracks semaphores, so that it outlives SIGHUP too."""
    with hold_signals():
        pass


def ignore_signals() -> None:
    """Ignore `SIGNALS`, which the parent process handles, and release them if they are held."""
    for number in SIGNALS:
        # Programs that an environment starts would inherit SIG_IGN, but inherit no handler.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
