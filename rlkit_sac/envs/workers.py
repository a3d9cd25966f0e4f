"""Environments in processes of their own: how they begin, fail and end."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import RawArray, connection, resource_tracker
from typing import Any, NoReturn

from tensordict import TensorDictBase
from torchrl.envs import EnvBase, ParallelEnv

from rlkit_sac import errors
from rlkit_sac.envs.faults import in_one_line
from rlkit_sac.errors import EnvironmentFault, RlkitSacError, RunError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_REPORT_BYTES = 1 << 14
_SECONDS_TO_LEAVE = 5.0


class Worker:
    """What the main process and the process of one environment know of each other.

    Made in the main process; travels to the other one with the arguments of the environment.

    Args:
        index: position of the environment among those that run side by side, from 0.

    >>> worker = Worker(0)
    >>> worker.is_here, worker.fault() is None
    (False, True)
    """

    def __init__(self, index: int) -> None:
        self._index = index
        self._main_pid = os.getpid()
        self._report = RawArray("c", _REPORT_BYTES)

    @property
    def is_here(self) -> bool:
        """Whether this is the process of the environment."""
        return os.getpid() != self._main_pid

    def settle(self) -> None:
        """Ignore Ctrl-C and SIGTERM, which the main process answers, and end when it has ended.

        Called in the process of the environment, before the environment is made.
        """
        for number in _SIGNALS:
            # A handler, unlike SIG_IGN, is not passed on to programs that an environment starts.
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()

    def leave(self, error: Exception, close: Callable[[], Any] = lambda: None) -> NoReturn:
        """End the process of the environment quietly, leaving the error to the main process.

        Args:
            error: what was raised.
            close: closes the environment; it has some seconds.
        """
        kind = type(error).__name__
        text = str(error)
        if not isinstance(error, RlkitSacError):
            kind, text = (
                "EnvironmentFault",
                f"environment {self._index} raised {in_one_line(error)}",
            )
        trace = "".join(traceback.format_exception(error))
        for keep in (len(trace), 4000, 0):
            content = json.dumps([kind, text[:1000], trace[-keep:] if keep else ""]).encode()
            if len(content) < _REPORT_BYTES:
                break
        self._report.value = content
        guard = threading.Timer(_SECONDS_TO_LEAVE, os._exit, [1])
        guard.daemon = True
        guard.start()
        with suppress(Exception):
            close()
        raise SystemExit(1)

    def forget(self) -> None:
        """Remove the report of an earlier process."""
        self._report.value = b""

    def fault(self) -> RlkitSacError | None:
        """Returns what :meth:`leave` left, with the traceback of that process as its cause."""
        if not self._report.value:
            return None
        kind, text, trace = json.loads(self._report.value)
        fault: RlkitSacError = getattr(errors, kind, RunError)(text)
        fault.__cause__ = WorkerTraceback(f"\n{trace}")
        return fault


class WorkerTraceback(Exception):  # noqa: N818 (it is shown, never raised)
    """Where an exception was raised in another process."""


class WatchedParallelEnv(ParallelEnv):
    """TorchRL's parallel environments, which say what happened in the process that has failed.

    What an environment raises is raised here with its own text; a process that was killed raises
    `EnvironmentFault` with the signal. In both cases the other processes are ended before. Ctrl-C
    and SIGTERM reach this process alone, and the others end when this one is gone.

    Args:
        num_envs: number of processes.
        create: makes an environment; called with ``env_index`` and ``worker``.
        options: as for ``ParallelEnv``.

    >>> from rlkit_sac.envs import closing_env, make_env
    >>> with closing_env(make_env("Pendulum-v1", num_envs=2, parallel=True)) as env:
    ...     type(env.base_env).__name__, env.rollout(3).shape
    ('WatchedParallelEnv', torch.Size([2, 3]))
    """

    is_closed: bool
    _workers: list[Any]
    parent_channels: list[Any]

    def __init__(self, num_envs: int, create: Callable[..., EnvBase], **options: Any) -> None:
        workers = [Worker(index) for index in range(num_envs)]
        super().__init__(
            num_envs,
            create,
            create_env_kwargs=[
                {"env_index": index, "worker": worker} for index, worker in enumerate(workers)
            ],
            **options,
        )
        self._reports = workers
        self._fault: RlkitSacError | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """In the block the failure of a process is raised as what it was.

        Raises:
            EnvironmentFault: an environment raised an exception, or its process was killed.
            ConfigError: a saved episode does not fit its environment.
        """
        if not self.is_closed and self._has_failed():
            self._cleanup_failed_worker_startup()
            self._raise_fault()
        try:
            yield
        except RlkitSacError:
            raise
        # What TorchRL raises depends on where it finds that a process has gone.
        except (RuntimeError, ValueError, OSError, EOFError):
            if not self.is_closed and self._find_fault() is not None:
                self._cleanup_failed_worker_startup()
            self._raise_fault()
            raise

    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> Any:
        """Takes a step in each environment, and resets those whose episode has ended."""
        with self.watching():
            return super().step_and_maybe_reset(tensordict)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        with self.watching():
            return super()._step(tensordict)

    def _reset(self, tensordict: TensorDictBase, **options: Any) -> TensorDictBase:
        with self.watching():
            return super()._reset(tensordict, **options)

    def _start_workers(self) -> None:
        self._fault = None
        for report in self._reports:
            report.forget()
        resource_tracker.ensure_running()  # which would unblock the signals below
        # The processes inherit that the signals are blocked, and meet none before they are ready.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            super()._start_workers()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _shutdown_workers(self) -> None:
        # TorchRL's shutdown takes no process that has gone already.
        if not self._has_failed():
            try:
                return super()._shutdown_workers()
            except (EOFError, OSError):  # one went meanwhile
                pass
        self._cleanup_failed_worker_startup()

    def _cleanup_failed_worker_startup(self) -> None:
        """Ends all processes whatever they do, and remembers why; at the start and later."""
        self._fault = self._find_fault()
        deadline = time.monotonic() + _SECONDS_TO_LEAVE
        for channel, process in zip(self.parent_channels, self._workers, strict=True):
            with suppress(OSError):
                if self.is_closed:  # at the start they cannot be asked yet
                    process.kill()
                else:
                    channel.send(("close", None))
        for process in self._workers:
            process.join(timeout=max(0.0, deadline - time.monotonic()))
            process.kill()
            process.join()
        for channel in self.parent_channels:
            channel.close()
        self._workers, self.parent_channels, self._events = [], [], None
        self.is_closed = True

    def _has_failed(self) -> bool:
        return not all(process.is_alive() for process in self._workers)

    def _find_fault(self) -> RlkitSacError | None:
        gone = connection.wait([process.sentinel for process in self._workers], timeout=1.0)
        for process in self._workers:
            if process.sentinel in gone:
                process.join(timeout=1.0)
        for report in self._reports:
            if (fault := report.fault()) is not None:
                return fault
        for index, process in enumerate(self._workers):
            if not process.is_alive():
                ended = _how_it_ended(process.exitcode)
                return EnvironmentFault(f"the process of environment {index} {ended}")
        return None

    def _raise_fault(self) -> None:
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault from fault.__cause__


def _how_it_ended(exit_code: int) -> str:
    if exit_code >= 0:
        return f"ended with exit code {exit_code}; what it printed may tell why"
    name = signal.Signals(-exit_code).name
    hint = " (as systems do that run out of memory)" if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"


def _end_with(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(1.0)
    os._exit(1)
