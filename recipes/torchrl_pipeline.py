"""Soft actor-critic in a pipeline of TorchRL: its environment, collector, replay and targets.

    rlkit-sac train torchrl_pipeline
    rlkit-sac train torchrl_pipeline --env.id HalfCheetah-v5 --frames 100000

The loss and its networks come from this package, all else from TorchRL. Start here to write a loop
of your own. Nothing is saved: the other recipes have run directories.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch.optim import Adam
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import Compose, DoubleToFloat, GymEnv, InitTracker, RewardSum, TransformedEnv
from torchrl.objectives import SoftUpdate

from rlkit_sac.config import EnvConfig, PositiveInt, Seed, parse_config
from rlkit_sac.modules import state_action_critic, tanh_gaussian_actor
from rlkit_sac.objectives import ContinuousSACLoss


@dataclass
class PipelineConfig:
    """Train by soft actor-critic with the components of TorchRL."""

    env: EnvConfig = field(default_factory=EnvConfig)
    frames: PositiveInt = 10_000
    """Number of environment steps."""
    init_random_frames: PositiveInt = 1_000
    """Number of frames with random actions, before the first update."""
    batch_size: PositiveInt = 256
    """Number of transitions in each update."""
    seed: Seed = 0
    """Seed of networks, environment and replay."""
    device: str = "cpu"
    """Device to compute on."""


def main(config: PipelineConfig) -> float:
    """Train with an update per frame, and return the mean return of the last ten episodes."""
    torch.manual_seed(config.seed)
    transforms = Compose(InitTracker(), DoubleToFloat(), RewardSum())
    env = TransformedEnv(
        GymEnv(config.env.id, device=config.device, **config.env.kwargs), transforms
    )
    env.set_seed(config.seed)

    size, action_size = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    bounds = (bound.tolist() for bound in (env.action_spec.space.low, env.action_spec.space.high))
    loss_module = ContinuousSACLoss(
        tanh_gaussian_actor(size, *bounds), state_action_critic(size, action_size)
    ).to(config.device)
    optimizer = Adam(loss_module.parameters(), lr=3e-4)
    target_updater = SoftUpdate(loss_module, tau=0.005)

    storage = LazyTensorStorage(config.frames, device=config.device)
    replay = TensorDictReplayBuffer(storage=storage, batch_size=config.batch_size)
    collector = Collector(
        env,
        loss_module.policy(),
        frames_per_batch=1,
        total_frames=config.frames,
        init_random_frames=config.init_random_frames,
    )
    returns: list[float] = []
    for batch in collector:
        replay.extend(batch.select(*loss_module.in_keys))
        if batch["next", "done"].any():
            returns.append(batch["next", "episode_reward"].item())
            print(f"{replay.write_count:>8} frames, return {returns[-1]:10.2f}", flush=True)
        if replay.write_count <= config.init_random_frames:
            continue
        losses = loss_module(replay.sample())
        optimizer.zero_grad()
        (losses["loss_actor"] + losses["loss_qvalue"] + losses["loss_alpha"]).backward()
        optimizer.step()
        target_updater.step()
    collector.shutdown()
    return sum(returns[-10:]) / len(returns[-10:])


if __name__ == "__main__":
    main(parse_config(PipelineConfig))
