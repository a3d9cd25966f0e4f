"""Runs of several seeds as tasks of a Ray cluster."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from multiprocessing import spawn
from pathlib import Path
from typing import Any

from rlkit_sac.data.workers.cluster import import_ray, ray_cluster
from rlkit_sac.errors import summary
from rlkit_sac.runs.interrupts import acknowledge
from rlkit_sac.runs.seeds.processes import SeedRun, print_ending, run_in_processes
from rlkit_sac.signals import on_signals


def run_on_ray(
    main: Callable[[Any], Path], configs: Sequence[Any], jobs: int, *, address: str | None
) -> tuple[list[SeedRun], int]:
    """Run each configuration as a Ray task, up to ``jobs`` at a time.

    As :func:`~rlkit_sac.runs.seeds.processes.run_in_processes`, on the machines of a cluster, which
    share the folders of the recipe and of its runs. The scheduler sets aside ``num_threads`` CPUs
    for each.

    Args:
        main: the recipe, a function that other processes can import.
        configs: its configurations, with a field ``seed``.
        jobs: largest number of tasks at a time.
        address: of the cluster, as of :func:`~rlkit_sac.data.workers.cluster.ray_cluster`.

    Returns:
        How the runs ended, in the order in which they did, and 128 plus the signal that ended
        them, else 0.

    Raises:
        ConfigError: Ray is missing, or the cluster cannot be reached or is too small.
    """
    ray = import_ray()
    cpus = getattr(configs[0], "num_threads", 1)
    process = {
        key: value for key, value in spawn.get_preparation_data("").items() if key != "authkey"
    }
    waiting, running = list(configs), dict[Any, int]()
    runs: list[SeedRun] = []
    received: list[int] = []
    passed_on = 0

    def receive(number: int) -> None:
        if not received:
            acknowledge("each seed after its step")
        received.append(number)

    with ray_cluster(address, workers=min(jobs, len(configs)), cpus=cpus), on_signals(receive):
        task = ray.remote(num_cpus=cpus, max_retries=0)(_run)
        while running or (waiting and not received):
            while waiting and len(running) < jobs and not received:
                config = waiting.pop(0)
                running[task.remote(process, pickle.dumps((main, config)))] = config.seed
                print(f"seed {config.seed}: started", flush=True)
            if passed_on < len(received):
                passed_on = len(received)
                for each in running:
                    ray.cancel(each, recursive=False)  # a Ctrl-C for its process
            for ended in ray.wait(list(running), timeout=1)[0]:
                seed, output = running.pop(ended), ""
                try:
                    run, output = ray.get(ended)
                except ray.exceptions.TaskCancelledError:
                    run = SeedRun(seed, 128 + received[0])
                except ray.exceptions.RayError as error:
                    text = f"its process ended early, by {summary(error)}"
                    run = SeedRun(seed, 1, error=f"{text}; --resume continues what it saved")
                runs.append(run)
                print_ending(run, output, len(runs), len(configs))
                if run.exit_code == 2:
                    waiting.clear()
    return runs, 128 + received[0] if received else 0


def _run(process: dict[str, Any], pickled: bytes) -> tuple[SeedRun, str]:
    """How the run of one seed ended, and what it printed; in a process prepared as the first."""
    spawn.prepare(process)
    main, config = pickle.loads(pickled)  # of the process that shares the code
    found: list[tuple[SeedRun, str]] = []
    run_in_processes(main, [config], 1, ended=lambda run, output, *_: found.append((run, output)))
    return found[0]
