"""How the time of an update and the frames a second change with each size of a run.

    python recipes/benchmarks/sizes.py
    python recipes/benchmarks/sizes.py --num_threads 2 --output sizes.csv
    python recipes/benchmarks/sizes.py --quick true

One size at a time moves away from batches of 256, two critics, one update a frame, one environment
and a replay buffer of 100,000 transitions. At each point the recipe's loop runs with a buffer that
is full: collect, store, sample, update. The rounds go through all points in turn; the table shows
medians over the rounds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace

import pandas as pd
import torch
from losses import make_update
from tensordict import TensorDictBase
from timing import describe_machine, load_averages, refuse_fallback

from rlkit_sac.config import PositiveInt, UpdateConfig
from rlkit_sac.data import example_transition, make_collector, make_replay_buffer
from rlkit_sac.envs import closing_env, continuous_action_bounds, make_env, observation_dim
from rlkit_sac.modules import state_action_critic, tanh_gaussian_actor
from rlkit_sac.objectives import ContinuousSACLoss
from rlkit_sac.runs import first_compiled_update, run_recipe
from rlkit_sac.updates import UpdateSchedule


@dataclass(frozen=True)
class Sizes:
    """Of a run.

    Attributes:
        batch_size: transitions of an update.
        num_qvalue_nets: critics.
        utd_ratio: updates for each frame.
        num_envs: environments that step together.
        capacity: transitions of the replay buffer.
    """

    batch_size: int = 256
    num_qvalue_nets: int = 2
    utd_ratio: int = 1
    num_envs: int = 1
    capacity: int = 100_000


FACTORS: dict[str, tuple[int, ...]] = {
    "batch_size": (64, 256, 1_024, 4_096),
    "num_qvalue_nets": (2, 5, 10, 20),
    "utd_ratio": (1, 2, 5, 10, 20),
    "num_envs": (1, 4, 16, 64),
    "capacity": (10_000, 100_000, 1_000_000),
}


@dataclass
class SizesTimingConfig:
    """What is measured, and how often."""

    task: str = "Pendulum-v1"
    """Gymnasium id of a task with continuous actions."""
    rounds: PositiveInt = 5
    """Rounds, in which each point has one turn."""
    updates: PositiveInt = 100
    """Updates of a turn, at least; whole batches of frames are collected."""
    compile: bool = True
    """Compile the updates, as the recipe does after its first thousand."""
    quick: bool = False
    """The ends of each factor alone, with few updates, uncompiled: to see that all of it runs."""
    num_threads: PositiveInt = 1
    """PyTorch's CPU threads."""
    output: str | None = None
    """CSV file for the times of each round; null writes none."""


def main(config: SizesTimingConfig) -> None:
    """Measure every point, print a table, and write the rounds if asked to."""
    torch.set_num_threads(config.num_threads)
    torch.manual_seed(0)
    refuse_fallback()
    if config.quick:
        config = replace(config, rounds=1, updates=2, compile=False)
    print(describe_machine(config.num_threads))
    print(f"load averages at the start: {load_averages()}")
    with ExitStack() as stack:
        loops = {sizes: Loop(sizes, config, stack) for sizes in points(quick=config.quick)}
        for loop in loops.values():
            loop.turn(updates=2)
        rows = [
            {"round": index, **asdict(sizes), **loop.turn(config.updates)}
            for index in range(config.rounds)
            for sizes, loop in loops.items()
        ]
    rounds = pd.DataFrame(rows)
    print(summary(rounds, quick=config.quick).to_string(index=False))
    print(f"load averages at the end: {load_averages()}")
    if config.output is not None:
        rounds.to_csv(config.output, index=False)


def factors(*, quick: bool) -> Iterator[tuple[str, int, Sizes]]:
    """Each factor with each of its values, and the sizes that this makes."""
    for name, values in FACTORS.items():
        for value in (values[0], values[-1]) if quick else values:
            yield name, value, replace(Sizes(), **{name: value})


def points(*, quick: bool) -> list[Sizes]:
    """All sizes that are measured, the defaults once."""
    return list(dict.fromkeys(sizes for *_, sizes in factors(quick=quick)))


class Loop:
    """The recipe's loop at some sizes, with a full replay buffer.

    Args:
        sizes: of the run.
        config: of the measurement.
        stack: closes the environment at the end.
    """

    def __init__(self, sizes: Sizes, config: SizesTimingConfig, stack: ExitStack) -> None:
        env = stack.enter_context(closing_env(make_env(config.task, num_envs=sizes.num_envs)))
        low, high = continuous_action_bounds(env)
        actor = tanh_gaussian_actor(observation_dim(env), low, high)
        critic = state_action_critic(observation_dim(env), len(low))
        self._loss = ContinuousSACLoss(
            actor, critic, num_qvalue_nets=sizes.num_qvalue_nets, diagnostics=True
        )
        self._update = make_update(
            self._loss,
            UpdateConfig(utd_ratio=sizes.utd_ratio),
            compile_from=first_compiled_update(config.compile, env.device),
        )
        example = example_transition(env, self._loss.in_keys)
        self._replay = make_replay_buffer(
            example, capacity=sizes.capacity, batch_size=sizes.batch_size
        )
        self._fill(example, sizes.capacity)
        self._collector = iter(
            make_collector(
                env,
                self._loss.policy(),
                total_frames=2**40,
                frames_per_batch=sizes.num_envs,
            )
        )
        self._schedule = UpdateSchedule(learning_starts=0, utd_ratio=sizes.utd_ratio)
        self._frames = self._updates = 0

    def _fill(self, example: TensorDictBase, count: int) -> None:
        """Store random transitions, in parts that need little memory besides the buffer's."""
        while count:
            part = min(count, 100_000)
            transitions = example.expand(part).clone()
            for value in transitions.values(True, True):
                if value.is_floating_point():
                    value.uniform_(-1, 1)
            self._replay.extend(transitions)
            count -= part

    def turn(self, updates: int) -> dict[str, float]:
        """Run until as many updates are made.

        Args:
            updates: at least.

        Returns:
            Milliseconds of an update and of a sample, and frames a second of all together.
        """
        frames, made = self._frames, self._updates
        in_updates = in_samples = 0.0
        start = time.perf_counter()
        while self._updates < made + updates:
            batch = next(self._collector)
            self._replay.extend(batch.select(*self._loss.in_keys).reshape(-1))
            self._frames += batch.numel()
            for _ in range(self._schedule.due(self._frames, made=self._updates)):
                before = time.perf_counter()
                sample = self._replay.sample()
                between = time.perf_counter()
                self._update(sample)
                in_samples += between - before
                in_updates += time.perf_counter() - between
                self._updates += 1
        seconds = time.perf_counter() - start
        count = self._updates - made
        return {
            "update_ms": 1e3 * in_updates / count,
            "sample_ms": 1e3 * in_samples / count,
            "frames_per_second": (self._frames - frames) / seconds,
        }


def summary(rounds: pd.DataFrame, *, quick: bool) -> pd.DataFrame:
    """Medians over the rounds, one row for each value of each factor.

    Args:
        rounds: one row for each round and point.
        quick: as in the configuration.
    """
    medians = rounds.groupby(list(FACTORS)).median()
    rows = []
    for name, value, sizes in factors(quick=quick):
        found = medians.loc[tuple(asdict(sizes).values())]
        row: dict[str, object] = {"factor": name, "value": value}
        row |= {key: f"{found[key]:.2f}" for key in ("update_ms", "sample_ms")}
        rows.append({**row, "frames/s": f"{found['frames_per_second']:.1f}"})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    run_recipe(main, SizesTimingConfig)
