"""PFRL, with one environment and one process."""

from __future__ import annotations

import acer_settings as common
import gymnasium as gym
import numpy as np
import torch
from peer import Settings, run_peer
from pfrl.agents.acer import ACER, ACERDiscreteActionHead
from pfrl.optimizers import SharedRMSpropEpsInsideSqrt
from pfrl.policies import SoftmaxCategoricalHead
from pfrl.q_functions import DiscreteActionValueHead
from pfrl.replay_buffers import EpisodicReplayBuffer
from torch import nn


def perceptron(inputs: int, outputs: int, head: nn.Module) -> nn.Sequential:
    """Two hidden layers of tanh units, and what PFRL makes of their outputs."""
    first, second = common.NUM_CELLS
    layers = [nn.Linear(inputs, first), nn.Tanh(), nn.Linear(first, second), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(second, outputs), head)


def train(settings: Settings) -> None:
    """Train, each reward scaled as in ours."""
    torch.set_num_threads(settings.num_threads)
    torch.manual_seed(settings.seed)
    env = gym.make(settings.task)
    observations, choices = env.observation_space, env.action_space
    if not (isinstance(observations, gym.spaces.Box) and isinstance(choices, gym.spaces.Discrete)):
        raise SystemExit(f"{settings.task}: wanted vectors as observations, and discrete actions")
    inputs, actions = observations.shape[0], int(choices.n)
    model = ACERDiscreteActionHead(
        perceptron(inputs, actions, SoftmaxCategoricalHead()),
        perceptron(inputs, actions, DiscreteActionValueHead()),
    )
    model.share_memory()
    optimizer = SharedRMSpropEpsInsideSqrt(
        model.parameters(),
        lr=common.LEARNING_RATE,
        eps=common.RMSPROP_EPS,
        alpha=common.RMSPROP_ALPHA,
    )
    # As PFRL's own training with several processes does; the agent asks for it even with one.
    for state in optimizer.state.values():
        state["square_avg"].share_memory_()
    agent = ACER(
        model,
        optimizer,
        t_max=common.T_MAX,
        gamma=common.GAMMA,
        beta=common.BETA,
        replay_buffer=EpisodicReplayBuffer(common.REPLAY_CAPACITY),
        n_times_replay=common.N_TIMES_REPLAY,
        replay_start_size=common.REPLAY_START_SIZE,
        truncation_threshold=common.TRUNCATION_THRESHOLD,
        trust_region_delta=common.TRUST_REGION_DELTA,
        max_grad_norm=common.MAX_GRAD_NORM,
        phi=np.float32,
    )
    observation, _ = env.reset(seed=settings.seed)
    for _ in range(settings.total_frames):
        observation, reward, terminated, truncated, _ = env.step(agent.act(observation))
        scaled = common.REWARD_SCALE * float(reward)
        agent.observe(observation, scaled, terminated, truncated)
        if terminated or truncated:
            observation, _ = env.reset()


if __name__ == "__main__":
    run_peer(train, ["pfrl", "torch", "gymnasium"])
