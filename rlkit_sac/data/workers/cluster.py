"""Starting Ray on this machine, or connecting to a cluster."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from rlkit_sac.errors import ConfigError, check_installed, prefix_errors
from rlkit_sac.signals import SIGNALS, hold_signals

_SECONDS_TO_CONNECT = 5.0


def import_ray() -> Any:
    """Return the module ``ray``, which is imported only where it is used.

    Raises:
        ConfigError: it is not installed.
    """
    check_installed("ray", extra="ray")
    import ray.exceptions

    return ray


@contextmanager
def ray_cluster(address: str | None = None, *, workers: int, cpus: float = 1.0) -> Iterator[None]:
    """Start Ray with all CPUs of this machine, or connect to a cluster, for the block.

    If Ray has been initialized before, it is used as it is and not shut down.

    Args:
        address: ``host:port`` of the head node, ``auto`` for the cluster of which this machine is
            a part; None to start one for the block.
        workers: number of workers.
        cpus: number of CPUs that the scheduler sets aside for each worker.

    Raises:
        ConfigError: if Ray is not installed, there is no cluster at the address, or it has fewer
            CPUs than the workers need.
    """
    ray = import_ray()
    if ray.is_initialized():
        check_capacity(workers, cpus)
        yield
        return
    if address not in (None, "auto"):
        _check_reachable(str(address))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # of workers, after the first
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    options: dict[str, Any] = {} if address else {"include_dashboard": False}
    ray._private.worker._worker_logs_enabled = False  # its paragraph about each worker that died
    options |= {"logging_level": "ERROR", "log_to_driver": False}
    try:
        # A signal to all processes of a terminal or a job is for this one, which ends the others.
        with _named_address(address), hold_signals():
            ray.init(address=address or "local", **options)
    finally:
        for number, handler in handlers.items():  # Ray handles SIGTERM by ending the process
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
    try:
        check_capacity(workers, cpus)
        yield
    finally:
        ray.shutdown()


def check_capacity(workers: int, cpus: float) -> None:
    """Refuse workers that the cluster cannot place: Ray would wait for them without end.

    Args:
        workers: number of workers.
        cpus: number of CPUs of each worker.

    Raises:
        ConfigError: if the cluster has too few CPUs, or Ray has not been started.
    """
    ray = import_ray()
    if not ray.is_initialized():
        raise ConfigError("Ray has not been started: make the collector inside of ray_cluster(...)")
    total = ray.cluster_resources().get("CPU", 0.0)
    if workers * cpus > total:
        raise ConfigError(
            f"{workers} workers of {cpus:g} CPUs each need {workers * cpus:g}, the Ray cluster has "
            f"{total:g}: lower workers.number, or workers.cpus of environments that mostly wait"
        )


def _check_reachable(address: str) -> None:
    """Refuse an address without a server; Ray would try for two minutes and end the process."""
    host, _, port = address.rpartition(":")
    with _named_address(address):
        socket.create_connection((host, int(port)), timeout=_SECONDS_TO_CONNECT).close()


def _named_address(address: str | None) -> AbstractContextManager[None]:
    """Turn errors of a connection into a `ConfigError` that names its address."""
    text = f"no Ray cluster at workers.address {address!r} (host:port, or auto)"
    return prefix_errors(text, OverflowError, RuntimeError, ValueError)
