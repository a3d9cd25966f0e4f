"""Behavioral cloning: a policy that acts as the replay of a run does, or demonstrations.

    rlkit-sac train clone --data runs/sac/Hopper-v5/<run> --env.id Hopper-v5
    rlkit-sac train clone --data demonstrations --env.id Platform-v0 --output cloned
    rlkit-sac train hybrid_sac --prior.kind policy --prior.run cloned

It maximizes the likelihood of the actions, whether continuous, discrete or mixed. The policy goes
to a folder, and can be the prior of other runs. ``--help all`` lists every option.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch.optim import Adam
from torchrl.data import Bounded, TensorSpec
from torchrl.envs import EnvBase

from rlkit_sac import runs
from rlkit_sac.config import EnvConfig, LayersConfig, PositiveInt, Seed
from rlkit_sac.config.options import PositiveFloat, Widths
from rlkit_sac.data import example_transition, make_replay_buffer
from rlkit_sac.envs import closing_env, describe_task, make_env, observation_layout
from rlkit_sac.errors import ConfigError, prefix_errors
from rlkit_sac.modules import (
    EncoderOptions,
    PolicyPrior,
    acting_policy,
    categorical_actor,
    tanh_gaussian_actor,
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
    """New folder of the policy, for load_policy and prior.run."""
    env: EnvConfig = field(default_factory=EnvConfig)
    num_cells: Widths = field(default_factory=lambda: [256, 256])
    """Widths of the hidden layers."""
    log_std_min: float = -2.0
    """Smallest log standard deviation of continuous actions, before the tanh: data with one action
    for each state make it as small as it may be, and such a prior allows no other."""
    updates: PositiveInt = 5_000
    """Steps of the optimizer."""
    batch_size: PositiveInt = 256
    """Transitions of each."""
    lr: PositiveFloat = 1e-3
    """Learning rate."""
    seed: Seed = 0
    """Seed of networks and batches."""
    device: str = "auto"
    """Where to compute: auto, cpu, cuda, cuda:<index> or mps."""
    num_threads: PositiveInt = 1
    """PyTorch's CPU threads."""


def main(config: CloneConfig) -> Path:
    """Clone, evaluate and save; returns the folder of the policy."""
    if os.path.exists(config.output):
        raise ConfigError(f"output: {config.output} exists already; name another folder")
    runs.limit_episodes(config.env)  # else its evaluation might never end
    torch.manual_seed(config.seed)
    torch.set_num_threads(config.num_threads)
    device = runs.resolve_device(config.device)
    with closing_env(make_env(config.env.id, **config.env.arguments(), device=device)) as env:
        with prefix_errors("data"):
            data = runs.read_prior_data(config.data, env)
        policy = clone(data, env, config)
        returns = runs.evaluate(policy, env, episodes=10, seed=0).returns
        runs.save_policy(config.output, policy, task=describe_task(env))
    print(f"{config.output}: cloned from {data.batch_size.numel():,} transitions")
    print(f"return {returns.mean():.2f} ± {returns.std():.2f} ({len(returns)} episodes)")
    return Path(config.output)


def clone(data: TensorDictBase, env: EnvBase, config: CloneConfig) -> TensorDictModuleBase:
    """A policy of the most likely actions of transitions ``[*]``, in evaluation mode."""
    parts = dict(env.full_action_spec_unbatched.items(True, True))
    observed = [entry["key"] for entry in observation_layout(env)]
    example = example_transition(env, [*observed, *parts])
    rows = runs.check_prior_data(data, example, env.full_action_spec_unbatched)
    rows = rows.clone().to(env.device)
    for key, part in parts.items():
        if isinstance(part, Bounded):
            low, high = part.space.low, part.space.high
            middle, half = (low + high) / 2, LARGEST_ACTION * (high - low) / 2
            rows[key] = rows[key].clamp(middle - half, middle + half)

    replay = make_replay_buffer(
        example,
        capacity=len(rows),
        batch_size=config.batch_size,
        prior_data=rows,
        device=env.device,
    )
    size = runs.observation_inputs(LayersConfig(), env)
    policy = acting_policy([make_actor(size, key, part, config) for key, part in parts.items()])
    policy = policy.to(env.device)
    scored, optimizer = PolicyPrior(policy), Adam(policy.parameters(), lr=config.lr)
    for _ in range(config.updates):
        batch = replay.sample()
        value = batch if len(parts) > 1 else batch["action"]
        loss = -scored.get_dist(batch).log_prob(value).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return policy.eval()


def make_actor(
    observation_dim: int | EncoderOptions, key: NestedKey, part: TensorSpec, config: CloneConfig
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


if __name__ == "__main__":
    runs.run_recipe(main, CloneConfig)
