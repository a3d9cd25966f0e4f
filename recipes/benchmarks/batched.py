"""Frames of a batched environment that are collected and stored, beside TorchRL's own parts.

    python recipes/benchmarks/batched.py
    python recipes/benchmarks/batched.py --num_envs '[64, 4096]' --output batched.csv

Ours is what a recipe does: the environment of ``make_env``, its collector with the check for NaN,
replay, normalizers' input and a row of ``episodes.csv`` for each episode. TorchRL's is the same
environment with ``StepCounter``, ``CatTensors`` and ``RewardSum``, its ``Collector`` and a replay
buffer, without tables. Both have the same actor and take turns; the table shows medians of the
ratios with 95 % bootstrap intervals.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import torch
from tensordict import TensorDict, TensorDictBase
from timing import TimingConfig, run_cases, take_turns
from torchrl import envs
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

from rlkit_sac.config.options import PositiveInt
from rlkit_sac.data import example_transition, make_collector, make_replay_buffer
from rlkit_sac.envs import make_env
from rlkit_sac.modules import tanh_gaussian_actor
from rlkit_sac.runs import run_recipe
from rlkit_sac.runs.files import CSVLog
from rlkit_sac.runs.log import finished_episodes

STORED = ["observation", "action"]
STORED += [("next", name) for name in ("observation", "reward", "terminated", "done")]  # type: ignore[list-item]


@dataclass
class BatchedConfig(TimingConfig):
    """What is measured, and how often."""

    num_envs: list[PositiveInt] = field(default_factory=lambda: [64, 1024])
    """Environments of a batch."""
    steps: PositiveInt = 50
    """Steps of all environments in a turn."""


def main(config: BatchedConfig) -> None:
    """Measure every number of environments."""
    cases = [{"num_envs": count} for count in config.num_envs]
    run_cases(config, cases, measure, ratios={"ratio": ("torchrl_ms", "ours_ms")})


def measure(num_envs: int, config: BatchedConfig) -> pd.DataFrame:
    """Time both in turns; one row for each round, in milliseconds a step of all environments."""
    contestants = {"ours_ms": ours(num_envs), "torchrl_ms": of_torchrl(num_envs)}
    rounds = take_turns(contestants, rounds=config.rounds, calls=config.steps, warm_up=20)
    rounds["ours_frames_per_s"] = 1e3 * num_envs / rounds["ours_ms"]
    return rounds


def ours(num_envs: int) -> Callable[[], object]:
    """Collects and stores one step as a recipe does."""
    env = make_env("torchrl.envs:PendulumEnv", num_envs=num_envs, max_episode_steps=200)
    actor = tanh_gaussian_actor(8, [-1.0], [1.0])
    replay = make_replay_buffer(
        example_transition(env, STORED, policy=actor), capacity=1_000_000, batch_size=256
    )
    batches = iter(make_collector(env, actor, total_frames=10**12, frames_per_batch=num_envs))
    table = CSVLog(Path(tempfile.mkdtemp()) / "episodes.csv")
    frames = 0

    def step() -> None:
        nonlocal frames
        batch = next(batches)
        replay.extend(batch.select(*STORED).reshape(-1))
        for row in finished_episodes(batch, frames=frames, most_rows=64):
            table.write(row)
        frames += num_envs

    return step


def of_torchrl(num_envs: int) -> Callable[[], object]:
    """Collects and stores one step by TorchRL alone."""
    source, empty = envs.PendulumEnv(), TensorDict(batch_size=[num_envs])

    def reset(*_: TensorDictBase) -> TensorDictBase:
        return source.reset(empty)

    env = envs.TransformedEnv(
        envs.PendulumEnv(),
        envs.Compose(
            envs.BatchSizeTransform(batch_size=[num_envs], reset_func=reset),
            envs.InitTracker(),
            envs.StepCounter(200),
            envs.RewardSum(),
            envs.UnsqueezeTransform(dim=-1, in_keys=["th", "thdot"], out_keys=["angle", "speed"]),
            envs.CatTensors(in_keys=["angle", "speed"], out_key="observation"),
        ),
    )
    actor = tanh_gaussian_actor(2, [-2.0], [2.0])
    collector = Collector(env, actor, frames_per_batch=num_envs, total_frames=-1)
    replay = TensorDictReplayBuffer(storage=LazyTensorStorage(1_000_000), batch_size=256)
    batches = iter(collector)
    return lambda: replay.extend(next(batches).select(*STORED).reshape(-1))


if __name__ == "__main__":
    torch.set_num_threads(1)
    run_recipe(main, BatchedConfig)
