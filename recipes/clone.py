"""Behavioral cloning: a policy that acts as the replay of a run does, or demonstrations.

    rlkit-sac train clone --data runs/sac/Hopper-v5/<run> --env.id Hopper-v5
    rlkit-sac train clone --data demonstrations --env.id Platform-v0 --output cloned
    rlkit-sac train hybrid_sac --prior.kind policy --prior.run cloned

It maximizes the likelihood of the actions, whether continuous, discrete or mixed. The policy goes
to a folder, and can be the prior of other runs. ``--help`` lists every option.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor
from torch.optim import Adam
from torchrl.data import Bounded, TensorSpec
from torchrl.envs import EnvBase

from rlkit_sac.config import EnvConfig, PositiveInt
from rlkit_sac.data import example_transition, make_replay_buffer
from rlkit_sac.envs import closing_env, describe_task, make_env, observation_dim
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import (
    PolicyPrior,
    acting_policy,
    categorical_actor,
    tanh_gaussian_actor,
)
from rlkit_sac.runs import (
    evaluate,
    read_prior_data,
    resolve_device,
    run_recipe,
    save_policy,
)

#: Where actions are at most, from -1 to 1: at its bounds a tanh is infinitely far away.
LARGEST_ACTION = 0.99


@dataclass
class CloneConfig:
    """What is cloned, into which networks."""

    data: str = "demonstrations"
    """Run directory, or folder that TensorDict.save wrote, with observations and actions as the
    task has them."""
    output: str = "cloned"
    """Folder of the policy, for load_policy and prior.run."""
    env: EnvConfig = field(default_factory=EnvConfig)
    num_cells: list[int] = field(default_factory=lambda: [256, 256])
    """Widths of the hidden layers."""
    log_std_min: float = -2.0
    """Smallest log standard deviation of continuous actions, before the tanh: data with one action
    for each state make it as small as it may be, and such a prior allows no other."""
    updates: PositiveInt = 5_000
    """Steps of the optimizer."""
    batch_size: PositiveInt = 256
    """Transitions of each."""
    lr: float = 1e-3
    """Learning rate."""
    device: str = "auto"
    """Where to compute: auto, cpu, cuda, cuda:<index> or mps."""
    num_threads: PositiveInt = 1
    """PyTorch's CPU threads."""


def main(config: CloneConfig) -> Path:
    """Clone, save and evaluate; returns the folder of the policy."""
    torch.manual_seed(0)
    torch.set_num_threads(config.num_threads)
    data, device = read_prior_data(config.data), resolve_device(config.device)
    with closing_env(make_env(config.env.id, **config.env.arguments(), device=device)) as env:
        policy = clone(data, env, config)
        save_policy(config.output, policy, task=describe_task(env))
        returns = evaluate(policy, env, episodes=10, seed=0).returns
    print(f"{config.output}: cloned from {data.numel():,} transitions")
    print(f"return {returns.mean():.2f} ± {returns.std():.2f} ({len(returns)} episodes)")
    return Path(config.output)


def clone(data: TensorDictBase, env: EnvBase, config: CloneConfig) -> TensorDictModuleBase:
    """A policy of the most likely actions of transitions ``[*]``, in evaluation mode."""
    parts = dict(env.full_action_spec_unbatched.items(True, True))
    replay = make_replay_buffer(
        example_transition(env, ["observation", *parts]),
        capacity=max(1, data.numel()),
        batch_size=config.batch_size,
        prior_data=data,
        device=env.device,
    )
    continuous = {key: part for key, part in parts.items() if isinstance(part, Bounded)}
    for key, part in continuous.items():
        largest = scaled(replay[:][key], part).abs().max()
        if largest > 1.001:
            raise ConfigError(
                f"{key!r} of the data is up to {largest:.3g} times as large as its bounds: choose "
                "env.rescale_actions as in the data"
            )

    size = observation_dim(env)
    policy = acting_policy([make_actor(size, key, part, config) for key, part in parts.items()])
    policy = policy.to(env.device)
    scored, optimizer = PolicyPrior(policy), Adam(policy.parameters(), lr=config.lr)
    for _ in range(config.updates):
        batch = replay.sample()
        for key, part in continuous.items():
            inside = scaled(batch[key], part).clamp(-LARGEST_ACTION, LARGEST_ACTION)
            low, high = part.space.low, part.space.high
            batch[key] = (low + high) / 2 + (high - low) / 2 * inside
        value = batch if len(parts) > 1 else batch["action"]
        loss = -scored.get_dist(batch).log_prob(value).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return policy.eval()


def make_actor(
    observation_dim: int, key: NestedKey, part: TensorSpec, config: CloneConfig
) -> TensorDictModuleBase:
    """The network of a part of the action."""
    if not isinstance(part, Bounded):
        return categorical_actor(
            observation_dim, part.space.n, num_cells=config.num_cells, action_key=key
        )
    return tanh_gaussian_actor(
        observation_dim,
        part.space.low.tolist(),
        part.space.high.tolist(),
        num_cells=config.num_cells,
        log_std_min=config.log_std_min,
        action_key=key,
    )


def scaled(action: Tensor, part: Bounded) -> Tensor:
    """Actions ``[*, D]`` from -1 to 1 between their bounds."""
    low, high = part.space.low, part.space.high
    return (2 * action - low - high) / (high - low)


if __name__ == "__main__":
    run_recipe(main, CloneConfig)
