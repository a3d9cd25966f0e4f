"""How a system is run to be timed: its command line, and the line it prints.

All systems of soft actor-critic have the same settings: batches of 256, networks of two layers of
256 units, one update for each frame after 1,000 random ones, a replay buffer of a million
transitions, a learned temperature, one environment, no evaluation. Those of actor-critic with
experience replay have theirs in `acer_settings.py`.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from frame_clock import measured, watch

LEARNING_STARTS = 1_000
REPLAY_CAPACITY = 1_000_000
BATCH_SIZE = 256
NUM_CELLS = (256, 256)


@dataclass(frozen=True)
class Settings:
    """What the command line says.

    Attributes:
        task: Gymnasium id.
        total_frames: to train for.
        num_threads: of the CPU.
        seed: of everything.
        device: of networks and replay, for ours and TorchRL's.
    """

    task: str
    total_frames: int
    num_threads: int
    seed: int
    device: str


def run_peer(train: Callable[[Settings], None], packages: Sequence[str]) -> None:
    """Train as the command line says, and print the time of the window as the last line, in JSON.

    Args:
        train: runs a system.
        packages: whose versions matter, as pip names them.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", required=True, help="Gymnasium id")
    parser.add_argument("--frames", type=int, required=True, help="frames that are timed")
    parser.add_argument("--warmup", type=int, default=0, help="frames before them")
    parser.add_argument("--num_threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="of networks and replay")
    given = parser.parse_args()
    watch(given.task, warmup=given.warmup, frames=given.frames)
    total_frames = given.warmup + given.frames
    train(Settings(given.task, total_frames, given.num_threads, given.seed, given.device))
    versions = [f"Python {platform.python_version()}"]
    versions += [f"{package} {version(package)}" for package in packages]
    seconds, cpu_seconds = measured[0]
    report = {"seconds": seconds, "cpu_seconds": cpu_seconds, "versions": ", ".join(versions)}
    print(json.dumps(report))
