"""TorchRL's own parts in the usual loop: Collector, replay buffer, SACLoss, SoftUpdate."""

from __future__ import annotations

import logging

import torch
from peer import BATCH_SIZE, LEARNING_STARTS, NUM_CELLS, REPLAY_CAPACITY, Settings, run_peer
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn
from torchrl import envs
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import SACLoss, SoftUpdate


def train(settings: Settings) -> None:
    """Train without logs."""
    logging.getLogger("torchrl").setLevel(logging.WARNING)
    torch.set_num_threads(settings.num_threads)
    torch.manual_seed(settings.seed)
    transforms = envs.Compose(
        envs.InitTracker(), envs.StepCounter(), envs.DoubleToFloat(), envs.RewardSum()
    )
    env = envs.TransformedEnv(envs.GymEnv(settings.task), transforms)
    env.set_seed(settings.seed)
    action_spec = env.action_spec.to(settings.device)
    observation_dim, action_dim = env.observation_spec["observation"].shape[0], action_spec.shape[0]

    layers = {"num_cells": list(NUM_CELLS), "activation_class": nn.ReLU}
    body = MLP(in_features=observation_dim, out_features=2 * action_dim, **layers)
    actor = ProbabilisticActor(
        TensorDictModule(
            nn.Sequential(body, NormalParamExtractor()),
            in_keys=["observation"],
            out_keys=["loc", "scale"],
        ),
        in_keys=["loc", "scale"],
        spec=action_spec,
        distribution_class=TanhNormal,
        distribution_kwargs={"low": action_spec.space.low, "high": action_spec.space.high},
    ).to(settings.device)
    critic = ValueOperator(
        MLP(in_features=observation_dim + action_dim, out_features=1, **layers),
        in_keys=["action", "observation"],
    ).to(settings.device)
    loss_module = SACLoss(actor, critic, loss_function="l2", action_spec=action_spec)
    loss_module.make_value_estimator(gamma=0.99)
    target_updater = SoftUpdate(loss_module, tau=0.005)
    optimizers = [
        torch.optim.Adam(loss_module.actor_network_params.flatten_keys().values(), lr=3e-4),
        torch.optim.Adam(loss_module.qvalue_network_params.flatten_keys().values(), lr=1e-3),
        torch.optim.Adam([loss_module.log_alpha], lr=1e-3),
    ]

    replay = TensorDictReplayBuffer(
        storage=LazyTensorStorage(REPLAY_CAPACITY, device=settings.device), batch_size=BATCH_SIZE
    )
    collector = Collector(
        env,
        actor,
        frames_per_batch=1,
        total_frames=settings.total_frames,
        init_random_frames=LEARNING_STARTS,
        env_device="cpu",
        policy_device=settings.device,
        storing_device=settings.device,
    )
    for index, batch in enumerate(collector):
        replay.extend(batch.reshape(-1))
        if index < LEARNING_STARTS:
            continue
        losses = loss_module(replay.sample())
        total = losses["loss_actor"] + losses["loss_qvalue"] + losses["loss_alpha"]
        total.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        target_updater.step()
    collector.shutdown()


if __name__ == "__main__":
    run_peer(train, ["torchrl", "tensordict", "torch", "gymnasium"])
