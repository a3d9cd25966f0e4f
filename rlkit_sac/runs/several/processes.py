"""The one loop of several runs: a process for each, so many at a time."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing import connection
from pathlib import Path
from typing import Any, TypeVar

from rlkit_sac.errors import ConfigError, RlkitSacError, summary
from rlkit_sac.output import drop_failed_output
from rlkit_sac.runs.stop import acknowledge, describe_failure, exit_code, raised_signals
from rlkit_sac.signals import held_signals, on_signals, release_signals

_SPAWN = multiprocessing.get_context("spawn")


class Job:
    """A run of a recipe in a process of its own, which `run_jobs` starts.

    Args:
        main: the recipe, a function that other processes can import; it returns the run directory.
        config: its configuration.
        log: file for what it prints, without a progress bar; ``None`` to print it here.

    Attributes:
        path: its run directory, if it has finished.
        error: what went wrong, if it has ended otherwise.
    """

    def __init__(self, main: Callable[[Any], Path], config: Any, log: Path | None = None) -> None:
        self._results = _SPAWN.Pipe(duplex=False)
        self.process = _SPAWN.Process(target=_run, args=(main, config, log, self._results[1]))
        self.path = self.error = ""

    @property
    def exit_code(self) -> int:
        """That of a recipe; below 0 if its process was killed."""
        return self.process.exitcode or 0

    def watch(self) -> None:
        """Called about every second until the run has ended, and once more then."""

    def end(self) -> None:
        """Called when the run has ended, to learn how."""
        if self._results[0].poll():
            self.path, self.error = self._results[0].recv()
        elif self.exit_code < 0:
            self.error = f"killed by {signal.Signals(-self.exit_code).name}"
        else:
            self.error = f"its process ended early, with exit code {self.exit_code}"


AnyJob = TypeVar("AnyJob", bound=Job)


def run_jobs(
    next_job: Callable[[], AnyJob | None], at_a_time: int, kind: str
) -> tuple[list[AnyJob], int]:
    """Run jobs until there are no more.

    Each signal is passed on to the running processes as SIGTERM, and none is started any more: they
    save and end, which this function waits for. After a `ConfigError` none is started either.
    If this process itself is killed, the others save and end too.

    Args:
        next_job: makes the next one, if there is one.
        at_a_time: largest number of processes at a time.
        kind: what each is, in words.

    Returns:
        The jobs in the order in which they ended; 128 plus the first signal, else 0.
    """
    running: list[AnyJob] = []
    ended: list[AnyJob] = []
    received: list[int] = []

    def pass_on(number: int) -> None:
        if not received:
            acknowledge(f"each {kind} after its step")
        received.append(number)
        for job in running:
            job.process.terminate()

    with on_signals(pass_on):
        try:
            while True:
                refused = any(job.exit_code == 2 for job in ended)
                while len(running) < at_a_time and not (received or refused):
                    with held_signals():  # so that pass_on cannot miss the new process
                        if (new := next_job()) is None:
                            break
                        new.process.start()
                        running.append(new)
                if not running:
                    return ended, 128 + received[0] if received else 0
                # A killed run's own workers may hold its sentinel open: look once in a while.
                connection.wait([job.process.sentinel for job in running], timeout=1)
                for job in list(running):
                    has_ended = job.process.exitcode is not None
                    job.watch()
                    if has_ended:
                        running.remove(job)
                        ended.append(job)
                        job.end()
        finally:
            for job in running:  # none, unless this function failed
                job.process.terminate()
                job.process.join()


def _run(
    main: Callable[[Any], Path], config: Any, log: Path | None, results: connection.Connection
) -> None:
    """The process of a job: call ``main(config)``, and report how it ended.

    A failure is printed with all its lines, except for a `ConfigError`, which may be the same for
    all jobs.
    """
    if log is not None:
        if hasattr(config, "logging"):
            config.logging.progress = False
        with log.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
    drop_failed_output()
    logging.getLogger("torchrl").setLevel(logging.WARNING)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    path, error, code = "", "", 0
    with raised_signals():
        try:
            _leave_terminal()
            path = str(main(config))
        except (Exception, KeyboardInterrupt) as failure:
            known = isinstance(failure, RlkitSacError | KeyboardInterrupt)
            error, code = str(failure) if known else summary(failure), exit_code(failure)
            if not isinstance(failure, ConfigError):
                print(describe_failure(failure), file=sys.stderr, flush=True)
    results.send((path, error))
    raise SystemExit(code)


def _leave_terminal() -> None:
    """Only the parent passes signals on: a second one would end the run without saving."""
    if sys.platform == "win32":
        return
    os.setsid()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # drops a Ctrl-C that was held
    signal.signal(signal.SIGINT, handler)
    release_signals()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
