"""The time of one collected frame, beside a plain loop over the Gymnasium environment.

    python recipes/benchmarks/light_path.py
    python recipes/benchmarks/light_path.py --tasks '[Hopper-v5]' --output light_path.csv

The plain loop calls the same network without gradients, samples a squashed Gaussian, steps what
``gymnasium.make`` returns, stores observations, actions, rewards and ends in arrays, and resets
where an episode is over. Beside it is the light collector, and with ``--torchrl true`` TorchRL's.
Hot means frame after frame. Cold means with matrix products before each batch of frames, as large
as those of an update: they leave neither data nor code of the loop in the caches. The products are
not timed. All take turns, so that they meet the same load of the machine; each round gives a ratio,
and the table shows their medians with 95 % bootstrap intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import gymnasium as gym
import numpy as np
import pandas as pd
import torch
from tensordict.nn import TensorDictModule
from timing import TimingConfig, run_cases, take_turns

from rlkit_sac.config.options import NonNegativeInt, PositiveInt
from rlkit_sac.data import LightCollector
from rlkit_sac.data.collect.collector import TorchRLCollector
from rlkit_sac.envs import continuous_action_bounds, make_env, observation_dim
from rlkit_sac.modules import tanh_gaussian_actor
from rlkit_sac.runs import run_recipe

_ENDLESS = 10**12  # frames


@dataclass
class LightPathConfig(TimingConfig):
    """What is measured, and how often."""

    tasks: list[str] = field(default_factory=lambda: ["Pendulum-v1", "HalfCheetah-v5"])
    """Gymnasium ids of tasks with continuous actions."""
    frames_per_batch: list[PositiveInt] = field(default_factory=lambda: [1, 50])
    """Frames of a batch."""
    torchrl: bool = False
    """Whether TorchRL's collector takes part."""
    num_cells: list[PositiveInt] = field(default_factory=lambda: [256, 256])
    """Widths of the hidden layers of the actor."""
    frames: PositiveInt = 200
    """Frames of a turn, in whole batches."""
    products: NonNegativeInt = 20
    """Products of [256, 256] matrices before a cold batch; 0 measures hot ones alone."""
    warm_up: PositiveInt = 200
    """Frames of each contestant before the first turn."""


def main(config: LightPathConfig) -> None:
    """Measure every task."""
    cases = [
        {"task": task, "frames_per_batch": frames_per_batch, "caches": caches}
        for task in config.tasks
        for frames_per_batch in config.frames_per_batch
        for caches in ("hot", "cold")[: 1 + bool(config.products)]
    ]
    ratios = {f"{kind}_ratio": (f"{kind}_us", "plain_us") for kind in ("light", "torchrl")}
    run_cases(config, cases, measure, ratios=ratios)


def measure(task: str, frames_per_batch: int, caches: str, config: LightPathConfig) -> pd.DataFrame:
    """Time all contestants in turns; one row for each round, in microseconds a frame."""
    contestants = make_contestants(task, frames_per_batch, config)
    rounds = take_turns(
        contestants,
        rounds=config.rounds,
        calls=-(-config.frames // frames_per_batch),
        warm_up=-(-config.warm_up // frames_per_batch),
        before=Products(config.products) if caches == "cold" else None,
    )
    rounds[list(contestants)] *= 1e3 / frames_per_batch
    return rounds


def make_contestants(
    task: str, frames_per_batch: int, config: LightPathConfig
) -> dict[str, Callable[[], object]]:
    """What collects one batch, by the column of its times; each has the same actor."""
    env = make_env(task)
    low, high = continuous_action_bounds(env)
    actor = tanh_gaussian_actor(observation_dim(env), low, high, num_cells=config.num_cells)
    network = actor.module[0]
    assert isinstance(network, TensorDictModule)
    contestants: dict[str, Callable[[], object]] = {
        "plain_us": PlainGymnasium(task, network.module, frames_per_batch)
    }
    kinds = {"light": LightCollector, "torchrl": TorchRLCollector}
    for kind in list(kinds)[: 1 + config.torchrl]:
        collector = kinds[kind](
            make_env(task), actor, total_frames=_ENDLESS, frames_per_batch=frames_per_batch
        )
        contestants[f"{kind}_us"] = iter(collector).__next__
    return contestants


class PlainGymnasium:
    """A loop such as one writes without a library; a call collects some frames.

    Args:
        task: Gymnasium id.
        network: from observations to mean and standard deviation.
        frames: of a call.
    """

    def __init__(self, task: str, network: torch.nn.Module, frames: int) -> None:
        self.env = gym.make(task, disable_env_checker=True)  # it looks at first steps only
        self.network, self.frames = network, frames
        action = self.env.action_space
        assert isinstance(action, gym.spaces.Box)
        self.high = action.high
        observation = self.env.observation_space
        self.observations = np.empty((frames, *(observation.shape or ())), np.float32)
        self.following = np.empty_like(self.observations)
        self.actions = np.empty((frames, *action.shape), np.float32)
        self.rewards = np.empty((frames, 1), np.float32)
        self.ends = np.empty((frames, 2), np.bool_)
        self.observation, _ = self.env.reset(seed=0)

    def __call__(self) -> None:
        """Collect frames into the arrays."""
        for index in range(self.frames):
            with torch.no_grad():
                loc, scale = self.network(torch.as_tensor(self.observation, dtype=torch.float32))
                action = torch.tanh(loc + scale * torch.randn_like(loc)).numpy()
            following, reward, terminated, truncated, _ = self.env.step(action * self.high)
            self.observations[index] = self.observation
            self.actions[index] = action
            self.rewards[index] = reward
            self.following[index] = following
            self.ends[index] = terminated, truncated
            self.observation = following
            if terminated or truncated:
                self.observation, _ = self.env.reset()


class Products:
    """Multiplies as many matrices as an update does, each its own.

    Args:
        count: number of products.
    """

    def __init__(self, count: int) -> None:
        self.factor = torch.randn(256, 256)
        self.others = [torch.randn(256, 256) for _ in range(count)]

    def __call__(self) -> None:
        """Multiply."""
        for other in self.others:
            torch.relu(self.factor @ other)


if __name__ == "__main__":
    run_recipe(main, LightPathConfig)
