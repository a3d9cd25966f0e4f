"""What workers on Ray gain where the environment is slow, and what they cost the learner.

    python recipes/benchmarks/workers.py
    python recipes/benchmarks/workers.py --milliseconds 5 --workers [0,1,2,4] --output workers.csv

Pendulum-v1 whose step takes some milliseconds without using a CPU, as a simulator on another
machine would; one update every eight frames. Runs with 0 (in this process), 1 and more asynchronous
workers take turns, so that they meet the same load of the machine. At the end one worker is killed:
a line above the table tells the longest time without a batch from then on.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import pandas as pd
from gymnasium.envs.classic_control import PendulumEnv
from tensordict import TensorDictBase
from timing import TimingConfig, median, run_benchmark
from update import make_update

from rlkit_sac.config import PositiveInt, UpdateConfig
from rlkit_sac.data import (
    WorkerCollector,
    example_transition,
    make_collector,
    make_replay_buffer,
)
from rlkit_sac.data.workers.cluster import ray_cluster
from rlkit_sac.envs import closing_env, make_env
from rlkit_sac.modules import state_action_critic, tanh_gaussian_actor
from rlkit_sac.objectives import ContinuousSACLoss
from rlkit_sac.runs import run_recipe
from rlkit_sac.updates import UpdateSchedule

UTD_RATIO = 1 / 8
CPUS_PER_WORKER = 0.1  # they wait most of the time


@dataclass
class WorkersTimingConfig(TimingConfig):
    """What is measured, and how often."""

    milliseconds: float = 20.0
    """Time of a step of the environment, without using a CPU."""
    workers: list[int] = field(default_factory=lambda: [0, 1, 2])
    """Numbers of workers; 0 collects in this process."""
    frames_per_batch: PositiveInt = 8
    """Frames of a batch."""
    batches: PositiveInt = 25
    """Batches of a turn."""
    rounds: PositiveInt = 5
    """Turns of each number of workers."""


class SlowPendulum(PendulumEnv):
    """Pendulum-v1 whose steps take longer.

    Args:
        seconds: of a step, besides its own.
        kill_file: whoever finds this file removes it and kills its own process.
    """

    def __init__(self, seconds: float, kill_file: str, render_mode: str | None = None) -> None:
        super().__init__(render_mode=render_mode)
        self._seconds, self._kill_file = seconds, Path(kill_file)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step."""
        time.sleep(self._seconds)
        if self._kill_file.exists():
            self._kill_file.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


gym.register("SlowPendulum-v0", entry_point=SlowPendulum, max_episode_steps=200)


def main(config: WorkersTimingConfig) -> None:
    """Measure all numbers of workers in turns."""
    run_benchmark(config, partial(measure, config), summary)


def measure(config: WorkersTimingConfig) -> pd.DataFrame:
    """One row for each round and number of workers; then kill a worker."""
    with ExitStack() as stack:
        stack.enter_context(ray_cluster(workers=sum(config.workers), cpus=CPUS_PER_WORKER))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        kill_file = Path(folder) / "kill"
        loops = {number: Loop(number, config, kill_file, stack) for number in config.workers}
        for loop in loops.values():
            loop.turn(config.batches)
        rows = [
            {"round": index, "workers": number, **loop.turn(config.batches)}
            for index in range(config.rounds)
            for number, loop in loops.items()
        ]
        most = max(config.workers)
        if most > 1:
            print(after_a_kill(loops[most], config, kill_file))
    return pd.DataFrame(rows)


class Loop:
    """A recipe's loop with some workers.

    Args:
        workers: how many; 0 for none.
        config: of the measurement.
        kill_file: that ends a worker, see :class:`SlowPendulum`.
        stack: closes what is opened.
    """

    def __init__(
        self, workers: int, config: WorkersTimingConfig, kill_file: Path, stack: ExitStack
    ) -> None:
        create = partial(
            make_env,
            gym.spec("SlowPendulum-v0"),
            kwargs={"seconds": config.milliseconds / 1e3, "kill_file": str(kill_file)},
        )
        env = stack.enter_context(closing_env(create()))
        loss = ContinuousSACLoss(tanh_gaussian_actor(3, [-1.0], [1.0]), state_action_critic(3, 1))
        self._update = make_update(loss, UpdateConfig(utd_ratio=UTD_RATIO))
        self._keys = loss.in_keys
        self._replay = make_replay_buffer(
            example_transition(env, self._keys), capacity=100_000, batch_size=256
        )
        options: dict[str, Any] = {
            "total_frames": 2**40,
            "frames_per_batch": config.frames_per_batch,
        }
        if workers:
            self.collector = WorkerCollector(
                create,
                loss.policy(),
                workers=workers,
                num_envs=1,
                mode="async",
                updates=lambda: self._update.count,
                cpus=CPUS_PER_WORKER,
                **options,
            )
            stack.callback(self.collector.shutdown)
        else:
            self.collector = make_collector(env, loss.policy(), **options)
        self._batches: Iterator[TensorDictBase] = iter(self.collector)
        self._waiting = max(workers, 1)
        self._schedule = UpdateSchedule(learning_starts=0, utd_ratio=UTD_RATIO)
        self._frames = self._updates = 0
        self.longest_wait = 0.0

    def turn(self, batches: int) -> dict[str, float]:
        """Collect and learn from some batches.

        Args:
            batches: how many.

        Returns:
            Frames a second, and milliseconds of an update.
        """
        for _ in range(self._waiting):  # which workers have made while others had their turn
            self._step()
        frames, updates, in_updates = self._frames, self._updates, 0.0
        self.longest_wait = 0.0
        start = time.perf_counter()
        for _ in range(batches):
            in_updates += self._step()
        seconds = time.perf_counter() - start
        return {
            "frames_per_second": (self._frames - frames) / seconds,
            "update_ms": 1e3 * in_updates / (self._updates - updates),
        }

    def _step(self) -> float:
        """One round of the loop; the seconds of its updates."""
        asked = time.perf_counter()
        batch = next(self._batches)
        begun = time.perf_counter()
        self.longest_wait = max(self.longest_wait, begun - asked)
        self._replay.extend(batch.select(*self._keys).reshape(-1))
        self._frames += batch.numel()
        for _ in range(self._schedule.due(self._frames, made=self._updates)):
            self._update(self._replay.sample())
            self._updates += 1
        return time.perf_counter() - begun


def summary(rounds: pd.DataFrame) -> pd.DataFrame:
    """Medians over the rounds, with ratios to the first number of workers of at least one.

    Args:
        rounds: one row for each round and number of workers.
    """
    table = []
    alone = rounds[rounds["workers"] == rounds["workers"].min()].set_index("round")
    single = rounds[rounds["workers"] == rounds.loc[rounds["workers"] > 0, "workers"].min()]
    for number, own in rounds.groupby("workers"):
        own = own.set_index("round")
        rate = own["frames_per_second"] / single.set_index("round")["frames_per_second"]
        table.append(
            {
                "workers": number,
                "frames/s": f"{own['frames_per_second'].median():.1f}",
                "ratio": str(median(rate)),
                "update ms": f"{own['update_ms'].median():.2f}",
                "update rate": str(median(alone["update_ms"] / own["update_ms"])),
            }
        )
    return pd.DataFrame(table)


def after_a_kill(loop: Loop, config: WorkersTimingConfig, kill_file: Path) -> str:
    """Kill a worker of a loop, and say how the loop went on.

    Args:
        loop: with at least two workers.
        config: of the measurement.
        kill_file: that ends a worker.
    """
    before = loop.turn(config.batches)["frames_per_second"]
    kill_file.touch()
    start = time.perf_counter()
    loop.turn(config.batches)
    longest = loop.longest_wait
    while loop.turn(config.batches)["frames_per_second"] < 0.9 * before:
        longest = max(longest, loop.longest_wait)
    return (
        f"a worker was killed: the learner waited {longest:.2f} s at the longest, and had all "
        f"workers back after {time.perf_counter() - start:.0f} s"
    )


if __name__ == "__main__":
    run_recipe(main, WorkersTimingConfig)
