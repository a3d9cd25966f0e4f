"""One plain page of PyTorch, as CleanRL writes soft actor-critic: no library between the lines."""

from __future__ import annotations

from itertools import pairwise

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from peer import BATCH_SIZE, LEARNING_STARTS, NUM_CELLS, REPLAY_CAPACITY, Settings, run_peer
from torch import Tensor, nn

GAMMA, TAU = 0.99, 0.005
LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    """A network with ReLU between its layers."""
    widths = [inputs, *NUM_CELLS]
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], outputs))


class Actor(nn.Module):
    """A Gaussian squashed by tanh into the bounds of the actions.

    Args:
        observation_dim: length of the observation.
        space: of the actions.
    """

    def __init__(self, observation_dim: int, space: gym.spaces.Box) -> None:
        super().__init__()
        self.body = mlp(observation_dim, 2 * space.shape[0])
        self.register_buffer("scale", torch.tensor((space.high - space.low) / 2))
        self.register_buffer("center", torch.tensor((space.high + space.low) / 2))

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """A sampled action and its log-density."""
        mean, raw = self.body(observation).chunk(2, dim=-1)
        half = (LOG_STD_MAX - LOG_STD_MIN) / 2
        log_std = LOG_STD_MIN + half * (torch.tanh(raw) + 1)
        normal = torch.distributions.Normal(mean, log_std.exp())
        before = normal.rsample()
        squashed = torch.tanh(before)
        log_prob = normal.log_prob(before) - torch.log(self.scale * (1 - squashed**2) + 1e-6)
        return squashed * self.scale + self.center, log_prob.sum(-1, keepdim=True)


def values(critic: nn.Module, observation: Tensor, action: Tensor) -> Tensor:
    """The values of actions."""
    return critic(torch.cat([observation, action], dim=-1))


class Replay:
    """A ring of NumPy arrays.

    Args:
        widths: of the arrays, one row for each transition.
        rng: draws the samples.
    """

    def __init__(self, widths: list[int], rng: np.random.Generator) -> None:
        self.arrays = [np.zeros((REPLAY_CAPACITY, width), np.float32) for width in widths]
        self.rng = rng
        self.count = 0

    def add(self, *values: np.ndarray | float) -> None:
        """Write a transition over the oldest."""
        for array, value in zip(self.arrays, values, strict=True):
            array[self.count % REPLAY_CAPACITY] = value
        self.count += 1

    def sample(self) -> list[Tensor]:
        """A batch, uniformly with replacement."""
        rows = self.rng.integers(min(self.count, REPLAY_CAPACITY), size=BATCH_SIZE)
        return [torch.from_numpy(array[rows]) for array in self.arrays]


def train(settings: Settings) -> None:
    """The whole algorithm."""
    torch.set_num_threads(settings.num_threads)
    torch.manual_seed(settings.seed)
    env = gym.make(settings.task)
    env.action_space.seed(settings.seed)
    observation_dim, action_dim = env.observation_space.shape[0], env.action_space.shape[0]

    actor = Actor(observation_dim, env.action_space)
    critics = [mlp(observation_dim + action_dim, 1) for _ in range(2)]
    targets = [mlp(observation_dim + action_dim, 1) for _ in range(2)]
    for critic, target in zip(critics, targets, strict=True):
        target.load_state_dict(critic.state_dict())
    log_alpha = torch.zeros(1, requires_grad=True)
    critic_optimizer = torch.optim.Adam([p for each in critics for p in each.parameters()], lr=1e-3)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=3e-4)
    alpha_optimizer = torch.optim.Adam([log_alpha], lr=1e-3)
    replay = Replay(
        [observation_dim, action_dim, 1, observation_dim, 1], np.random.default_rng(settings.seed)
    )

    observation, _ = env.reset(seed=settings.seed)
    for frame in range(settings.total_frames):
        if frame < LEARNING_STARTS:
            action = env.action_space.sample()
        else:
            with torch.no_grad():
                action = actor(torch.as_tensor(observation, dtype=torch.float32))[0].numpy()
        following, reward, terminated, truncated, _ = env.step(action)
        replay.add(observation, action, float(reward), following, float(terminated))
        observation = env.reset()[0] if terminated or truncated else following
        if frame < LEARNING_STARTS:
            continue

        states, actions, rewards, next_states, ends = replay.sample()
        alpha = log_alpha.exp().detach()
        with torch.no_grad():
            next_actions, next_log_prob = actor(next_states)
            next_values = torch.min(*(values(each, next_states, next_actions) for each in targets))
            goal = rewards + GAMMA * (1 - ends) * (next_values - alpha * next_log_prob)
        loss = sum(F.mse_loss(values(critic, states, actions), goal) for critic in critics)
        critic_optimizer.zero_grad()
        loss.backward()
        critic_optimizer.step()

        new_actions, log_prob = actor(states)
        smaller = torch.min(*(values(critic, states, new_actions) for critic in critics))
        actor_optimizer.zero_grad()
        (alpha * log_prob - smaller).mean().backward()
        actor_optimizer.step()

        alpha_optimizer.zero_grad()
        (-log_alpha.exp() * (log_prob.detach() - action_dim)).mean().backward()
        alpha_optimizer.step()

        with torch.no_grad():
            for critic, target in zip(critics, targets, strict=True):
                for live, slow in zip(critic.parameters(), target.parameters(), strict=True):
                    slow.lerp_(live, TAU)
    env.close()


if __name__ == "__main__":
    run_peer(train, ["torch", "gymnasium", "numpy"])
