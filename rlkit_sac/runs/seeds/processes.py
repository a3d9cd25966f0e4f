"""Runs of several seeds, each of which may fail without ending the others."""

from __future__ import annotations

import dataclasses
import json
import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from rlkit_sac.errors import ConfigError, RlkitSacError
from rlkit_sac.output import drop_failed_output
from rlkit_sac.runs.failures import describe_failure, exit_code, run_behind
from rlkit_sac.runs.files import write_atomically
from rlkit_sac.runs.interrupts import (
    TIME_LIMIT_CODE,
    acknowledge,
    interrupt_behind,
    raised_signals,
)
from rlkit_sac.signals import held_signals, on_signals, release_signals


@dataclass(frozen=True)
class SeedRun:
    """How the run of one seed ended.

    >>> SeedRun(seed=3, exit_code=1, error="killed by SIGKILL").path is None
    True
    """

    seed: int
    exit_code: int
    path: str | None = None
    """Its run directory, if one was made and is known."""
    error: str = ""
    """What went wrong; empty after exit code 0."""

    @property
    def ending(self) -> str:
        """``finished``, ``failed`` or ``interrupted``."""
        if self.exit_code > 128 or self.exit_code == TIME_LIMIT_CODE:
            return "interrupted"
        return "failed" if self.exit_code else "finished"


def run_seed(main: Callable[[Any], Path], config: Any) -> SeedRun:
    """Call ``main(config)`` and catch whatever ends it.

    A failure is printed with all its lines, except for a `ConfigError`, which may be the same for
    all seeds.

    Args:
        main: the recipe; it returns the run directory.
        config: its configuration, with a field ``seed``.

    >>> from rlkit_sac.config import EnvConfig
    >>> config = EnvConfig()
    >>> config.seed = 4
    >>> run_seed(lambda config: Path("runs") / config.id, config)
    SeedRun(seed=4, exit_code=0, path='runs/Pendulum-v1', error='')
    """
    try:
        return SeedRun(config.seed, 0, str(main(config)))
    except BaseException as error:
        interrupted = interrupt_behind(error) is not None
        if isinstance(error, SystemExit) and not interrupted:
            raise
        if interrupted or not isinstance(error, ConfigError):
            print(describe_failure(error), file=sys.stderr, flush=True)
        kind = "" if isinstance(error, RlkitSacError) else f"{type(error).__name__}: "
        run = run_behind(error)
        path = None if run is None else str(run)
        return SeedRun(config.seed, exit_code(error), path, f"{kind}{error}")


def print_ending(run: SeedRun, output: str, number: int, of: int) -> None:
    """Say how a run ended, and what it printed.

    Args:
        run: that has ended.
        output: what it printed.
        number: of the runs that have ended.
        of: so many.

    >>> print_ending(SeedRun(seed=3, exit_code=0), "done", 1, 2)
    <BLANKLINE>
    seed 3: finished (1 of 2)
    done
    """
    print(f"\nseed {run.seed}: {run.ending} ({number} of {of})\n{output}", flush=True)


def run_in_processes(
    main: Callable[[Any], Path],
    configs: Sequence[Any],
    jobs: int,
    *,
    ended: Callable[[SeedRun, str, int, int], object] = print_ending,
) -> tuple[list[SeedRun], int]:
    """Run each configuration in a process of its own, up to ``jobs`` at a time.

    The processes show no progress bars; what else one writes is printed when it ends. Each
    signal is passed on to the running processes as SIGTERM, and none is started any more: they save
    and end, which this function waits for. If this process itself is
    killed, the others save and end too.

    Args:
        main: the recipe, a function that other processes can import.
        configs: its configurations, with a field ``seed``.
        jobs: largest number of processes at a time.
        ended: called as each run ends, with the arguments of :func:`print_ending`.

    Returns:
        How the runs ended, in the order in which they did, and 128 plus the signal that ended
        them, else 0.
    """
    waiting = list(configs)
    running: list[SeedProcess] = []
    runs: list[SeedRun] = []
    received: list[int] = []

    def pass_on(number: int) -> None:
        if not received:
            acknowledge("each seed after its step")
        received.append(number)
        for process in running:
            process.terminate()

    with tempfile.TemporaryDirectory(prefix="rlkit_sac-") as folder, on_signals(pass_on):
        try:
            while running or (waiting and not received):
                while waiting and len(running) < jobs and not received:
                    process = SeedProcess(main, waiting.pop(0), Path(folder))
                    with held_signals():  # so that pass_on cannot miss the new process
                        process.start()
                        running.append(process)
                    print(f"seed {process.seed}: started (process {process.pid})", flush=True)
                # A killed run's own workers may hold its sentinel open: look once in a while.
                connection.wait([process.sentinel for process in running], timeout=1)
                for process in [each for each in running if each.exitcode is not None]:
                    running.remove(process)
                    runs.append(process.result())
                    ended(runs[-1], process.output(), len(runs), len(configs))
                    if runs[-1].exit_code == 2:
                        waiting.clear()
        finally:
            for process in running:  # none, unless this function failed
                process.terminate()
                process.join()
    return runs, 128 + received[0] if received else 0


class SeedProcess(SpawnProcess):
    """Runs one seed; it leaves its output in one file, and how it ended in another.

    Args:
        main: the recipe, a function that other processes can import.
        config: its configuration, with a field ``seed``.
        folder: of the two files, ``seed<number>.log`` and ``.json``.
    """

    def __init__(self, main: Callable[[Any], Path], config: Any, folder: Path) -> None:
        super().__init__()
        self.seed: int = config.seed
        self._recipe, self._run_config = main, config
        self._log = folder / f"seed{config.seed}.log"
        self._result = folder / f"seed{config.seed}.json"
        self._result.unlink(missing_ok=True)  # of an earlier attempt

    def run(self) -> None:
        """Run it, in the process."""
        descriptor = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for number in (1, 2):
            os.dup2(descriptor, number)
        drop_failed_output()
        logging.getLogger("torchrl").setLevel(logging.WARNING)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        if hasattr(self._run_config, "logging"):
            self._run_config.logging.progress = False

        def main(config: Any) -> Path:
            _leave_terminal()
            return self._recipe(config)

        with raised_signals():
            seed_run = run_seed(main, self._run_config)
        write_atomically(self._result, json.dumps(dataclasses.asdict(seed_run)).encode())
        raise SystemExit(seed_run.exit_code)

    def result(self) -> SeedRun:
        """How the run ended, once the process has."""
        if self._result.exists():
            return SeedRun(**json.loads(self._result.read_text(encoding="utf-8")))
        code = self.exitcode or 0
        error = f"its process ended early, with exit code {code}"
        if code < 0:
            error = f"killed by {signal.Signals(-code).name}; --resume continues what it saved"
        return SeedRun(self.seed, 1, error=error)

    def output(self) -> str:
        """What the run printed."""
        if not self._log.exists():
            return ""
        return self._log.read_text(encoding="utf-8", errors="replace").rstrip()


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
