"""Environments in processes of their own, and calls to each of several environments."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from multiprocessing import RawArray, connection
from typing import Any, NoReturn

from tensordict import TensorDictBase
from torchrl.envs import EnvBase, ParallelEnv, SerialEnv, TransformedEnv

from rlkit_sac import errors
from rlkit_sac.errors import EnvironmentFault, RlkitSacError, RunError, summary
from rlkit_sac.output import drop_failed_output
from rlkit_sac.signals import held_signals, leave_signals

_TRACE_LENGTH = 9000
_REPORT_BYTES = 1 << 17  # JSON has up to 12 bytes for a character
_SECONDS_TO_LEAVE = 5.0
_SECONDS_TO_ANSWER = 1.0


class Worker:
    """The connection between the main process and the process of one environment.

    Made in the main process; travels to the other one with the arguments of the environment.

    Args:
        index: position of the environment among those that run side by side, from 0.

    Attributes:
        name: of the environment, for messages.

    >>> worker = Worker(0)
    >>> worker.is_here, worker.fault() is None
    (False, True)
    """

    def __init__(self, index: int) -> None:
        self.name = f"environment {index}"
        self._main_pid = os.getpid()
        self._report = RawArray("c", _REPORT_BYTES)

    @property
    def is_here(self) -> bool:
        """Whether this is the process of the environment."""
        return os.getpid() != self._main_pid

    def set_up(self) -> None:
        """Ignore signals that the main process handles, and end when it has ended.

        What it prints need not be read. Called in the process of the environment, before the
        environment is made.
        """
        drop_failed_output()
        leave_signals()
        threading.Thread(target=_exit_with_parent, args=(os.getppid(),), daemon=True).start()

    def exit_with(self, error: BaseException, close: Callable[[], Any]) -> NoReturn:
        """Report an error to the main process, and end the process of the environment quietly.

        Args:
            error: what was raised.
            close: closes the environment; it has some seconds.
        """
        report = report_of(error, EnvironmentFault, self.name)
        self._report.value = json.dumps(report).encode()
        guard = threading.Timer(_SECONDS_TO_LEAVE, os._exit, [1])
        guard.daemon = True
        guard.start()
        with suppress(Exception):
            close()
        raise SystemExit(1)

    def clear_report(self) -> None:
        """Remove the report of an earlier process."""
        self._report.value = b""

    def fault(self) -> RlkitSacError | None:
        """Returns the error of :meth:`exit_with`, its traceback as its cause; None without one."""
        if not self._report.value:
            return None
        return reported_error(json.loads(self._report.value))


@contextmanager
def reporting(worker: Worker | None, close: Callable[[], Any] = lambda: None) -> Iterator[None]:
    """Ends the process of an environment by :meth:`Worker.exit_with` where the block raises.

    Args:
        worker: None for an environment in the main process, which raises the exception itself.
        close: closes the environment.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:  # signals raise none where there is a worker
        if worker is None:
            raise
        worker.exit_with(error, close)


def report_of(error: BaseException, kind: type[RlkitSacError], who: str) -> list[str]:
    """An error as texts that another process makes it from, by :func:`reported_error`.

    Args:
        error: what was raised.
        kind: of error that stands for one that is not of this package.
        who: raised it.

    >>> report_of(ValueError("no"), RunError, "worker 0")[:2]
    ['RunError', 'worker 0 raised ValueError: no']
    """
    fault = error if isinstance(error, RlkitSacError) else kind(f"{who} raised {summary(error)}")
    trace = "".join(traceback.format_exception(error))
    return [type(fault).__name__, str(fault)[:1000], trace[-_TRACE_LENGTH:]]


def reported_error(report: Sequence[str]) -> RlkitSacError:
    """The error of :func:`report_of`, its traceback as its cause."""
    kind, text, trace = report
    fault: RlkitSacError = getattr(errors, kind, RunError)(text)
    fault.__cause__ = WorkerTraceback(f"\n{trace}")
    return fault


class WorkerTraceback(Exception):  # noqa: N818 (it is shown, never raised)
    """The traceback of an exception in another process."""


class WatchedParallelEnv(ParallelEnv):
    """TorchRL's parallel environments, with errors that tell how a process failed.

    An exception of an environment is raised here with its own message; for a process that was
    killed `EnvironmentFault` names the signal, for one that does not answer the time it had. In all
    cases the other processes are ended first. Signals are handled by this process alone; the others
    end with it, within seconds also where they do not answer.

    Args:
        num_envs: number of processes.
        create: makes an environment; called with ``env_index`` and ``worker``.
        first_index: ``env_index`` of the first one.
        timeout: seconds a step or reset of all environments may take; None for TorchRL's own
            limit, 10,000.
        options: as for ``ParallelEnv``.

    >>> from rlkit_sac.envs import closing_env, make_env
    >>> with closing_env(make_env("Pendulum-v1", num_envs=2, parallel=True)) as env:
    ...     type(env.base_env).__name__, env.rollout(3).shape
    ('WatchedParallelEnv', torch.Size([2, 3]))
    """

    is_closed: bool
    _workers: list[Any]
    parent_channels: list[Any]

    def __init__(
        self,
        num_envs: int,
        create: Callable[..., EnvBase],
        *,
        first_index: int = 0,
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        workers = [Worker(first_index + index) for index in range(num_envs)]
        super().__init__(
            num_envs,
            create,
            create_env_kwargs=[
                {"env_index": index, "worker": worker}
                for index, worker in enumerate(workers, first_index)
            ],
            **options,
        )
        self._reports = workers
        self._seconds = timeout
        self._awaited: Sequence[int] = ()
        self._fault: RlkitSacError | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Raises the failure of a process in the block as the exception that caused it.

        Raises:
            EnvironmentFault: an environment raised an exception or did not answer in time, or its
                process was killed.
            ConfigError: a saved episode does not fit its environment.
        """
        if not self.is_closed and self._has_failed():
            self._cleanup_failed_worker_startup()
            self._raise_fault()
        try:
            yield
        except RlkitSacError:
            raise
        # The exception of TorchRL depends on where it notices that a process has ended.
        except (RuntimeError, ValueError, OSError, EOFError):
            if not self.is_closed and self._find_fault() is not None:
                self._cleanup_failed_worker_startup()
            self._raise_fault()
            raise

    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> Any:
        """Steps each environment, and resets those whose episode has ended."""
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
            report.clear_report()
        with held_signals():  # which the processes release when they can handle them
            super()._start_workers()
        if self._seconds is not None:
            self.BATCHED_PIPE_TIMEOUT = self._seconds

    def _wait_for_workers(self, workers_range: Sequence[int]) -> None:
        self._awaited = workers_range
        super()._wait_for_workers(workers_range)
        self._awaited = ()

    def _shutdown_workers(self) -> None:
        # TorchRL's fails where a process has ended, and waits long for one that does not answer.
        if self._has_failed():
            self._fault = self._find_fault()
        self._end_workers()

    def _cleanup_failed_worker_startup(self) -> None:
        """Ends all processes and keeps the reason; TorchRL calls it when their start fails."""
        self._fault = self._find_fault()
        self._end_workers()

    def _end_workers(self) -> None:
        deadline = time.monotonic() + (_SECONDS_TO_ANSWER if self._awaited else _SECONDS_TO_LEAVE)
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
        ended = connection.wait([process.sentinel for process in self._workers], timeout=1.0)
        for process in self._workers:
            if process.sentinel in ended:
                process.join(timeout=1.0)
        for report in self._reports:
            if (fault := report.fault()) is not None:
                return fault
        for index, process in enumerate(self._workers):
            if not process.is_alive():
                how = _describe_exit(process.exitcode)
                return EnvironmentFault(f"the process of {self._reports[index].name} {how}")
        for index in self._awaited:
            if not self._shm_done_flags[index]:
                seconds = f"{self.BATCHED_PIPE_TIMEOUT:g} seconds"
                name = self._reports[index].name
                return EnvironmentFault(f"{name} did not answer within {seconds} (env.timeout)")
        return None

    def _raise_fault(self) -> None:
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault from fault.__cause__


def call_each(env: EnvBase, method: str, *arguments: Any) -> list[Any]:
    """Calls a method of each environment and returns the results.

    Args:
        env: what :func:`~rlkit_sac.envs.make_env` returned; several environments are started if
            they are closed.
        method: name of a method of the environments.
        arguments: of the method.

    Raises:
        EnvironmentFault: the process of an environment has failed.

    >>> from rlkit_sac.envs import make_env
    >>> call_each(make_env("Pendulum-v1", num_envs=2), "get_wrapper_attr", "max_torque")
    [2.0, 2.0]
    """
    base = base_env(env)
    if not is_batched(base):
        return [getattr(base, method)(*arguments)]
    with watching(base):
        if base.is_closed:
            base.start()
        return list(getattr(base, method)(*arguments))


def base_env(env: EnvBase) -> EnvBase:
    """Returns the environment under all transforms."""
    while isinstance(env, TransformedEnv):
        env = env.base_env
    return env


def is_batched(env: EnvBase) -> bool:
    """Whether an environment without transforms consists of several."""
    return isinstance(env, (SerialEnv, WatchedParallelEnv))


def watching(env: EnvBase) -> AbstractContextManager[None]:
    """Raises the failure of a process in the block as the exception that caused it."""
    return env.watching() if isinstance(env, WatchedParallelEnv) else nullcontext()


def _describe_exit(exit_code: int) -> str:
    if exit_code >= 0:
        return f"ended with exit code {exit_code}; what it printed may tell why"
    name = signal.Signals(-exit_code).name
    hint = " (as systems do that run out of memory)" if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"


def _exit_with_parent(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(1.0)
    os._exit(1)
