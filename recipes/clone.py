"""Behavioral cloning of the actions in the replay buffer of a run, or in demonstrations.

    rlkit-sac train clone --data runs/sac/Hopper-v5/<run> --env.id Hopper-v5
    rlkit-sac train clone --data demonstrations --env.id Platform-v0 --output cloned
    rlkit-sac train hybrid_sac --prior.kind policy --prior.run cloned

The policy maximizes the likelihood of the actions, which may be continuous, discrete or mixed. It
is saved in a folder, and can be the prior of other runs. ``--help all`` lists every option.
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
from rlkit_sac.config import BaseNetworkConfig, EnvConfig, NormalizationConfig, PositiveInt, Seed
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

#: Largest action on [-1, 1], since the tanh of a policy never reaches the bounds.
LARGEST_ACTION = 0.99


@dataclass
class CloneConfig:
    """Clone a policy from a replay buffer or from demonstrations."""

    data: str = "demonstrations"
    """Run directory, folder that TensorDict.save wrote, or minari: and the name of a data set, with
    observations and actions of the task."""
    output: str = "cloned"
    """New folder for the policy, which load_policy and prior.run read."""
    env: EnvConfig = field(default_factory=EnvConfig)
    num_cells: Widths = field(default_factory=lambda: [256, 256])
    """Widths of the hidden layers."""
    log_std_min: float = -2.0
    """Smallest log standard deviation of continuous actions, before the tanh. Data with one action
    for each state drive it to this limit; a prior with a small one allows no other actions."""
    normalize_observations: bool = False
    """Normalize vector observations by the mean and standard deviation of the data, which the
    policy keeps; for runs that begin at the policy, and normalize observations."""
    updates: PositiveInt = 5_000
    """Number of steps of the optimizer."""
    batch_size: PositiveInt = 256
    """Number of transitions in each step."""
    lr: PositiveFloat = 1e-3
    """Learning rate of the optimizer."""
    seed: Seed = 0
    """Seed of networks and batches."""
    device: str = "auto"
    """Device to compute on: auto, cpu, cuda, cuda:<index> or mps."""
    num_threads: PositiveInt = 1
    """Number of PyTorch's CPU threads."""


def main(config: CloneConfig) -> Path:
    """Clone, evaluate and save a policy, and return its folder."""
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
    """Train a policy to maximize the likelihood of the actions in transitions ``[*]``.

    The policy is returned in evaluation mode.
    """
    action_specs = dict(env.full_action_spec_unbatched.items(True, True))
    observation_keys = [entry["key"] for entry in observation_layout(env)]
    example = example_transition(env, [*observation_keys, *action_specs])
    rows = runs.check_prior_data(data, example, env.full_action_spec_unbatched)
    rows = rows.clone().to(env.device)
    for key, spec in action_specs.items():
        if isinstance(spec, Bounded):
            low, high = spec.space.low, spec.space.high
            middle, half = (low + high) / 2, LARGEST_ACTION * (high - low) / 2
            rows[key] = rows[key].clamp(middle - half, middle + half)

    replay = make_replay_buffer(
        example,
        capacity=len(rows),
        batch_size=config.batch_size,
        prior_data=rows,
        device=env.device,
    )
    size = runs.observation_inputs(BaseNetworkConfig(), env)
    actors = [make_actor(size, key, spec, config) for key, spec in action_specs.items()]
    normalization = NormalizationConfig(observations=config.normalize_observations, clip=None)
    normalizer = runs.make_normalizers(normalization, env, gamma=0.99).get("observation_normalizer")
    if normalizer is not None:
        normalizer.update(rows[normalizer.key])
        statistics = normalizer.statistics
        constant = statistics.variance < 1e-8  # may be far from it later: they are not scaled
        statistics.deviations[constant] = statistics.count.to(statistics.deviations)
    policy = acting_policy(actors, normalizer).to(env.device)
    likelihood, optimizer = PolicyPrior(policy), Adam(policy.parameters(), lr=config.lr)
    for _ in range(config.updates):
        batch = replay.sample()
        action = batch if len(action_specs) > 1 else batch["action"]
        loss = -likelihood.get_dist(batch).log_prob(action).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return policy.eval()


def make_actor(
    observation_dim: int | EncoderOptions, key: NestedKey, spec: TensorSpec, config: CloneConfig
) -> TensorDictModuleBase:
    """Make the network of the discrete or of the continuous part of the action."""
    if not isinstance(spec, Bounded):
        return categorical_actor(
            observation_dim, spec.space.n, num_cells=config.num_cells, action_key=key
        )
    return tanh_gaussian_actor(
        observation_dim,
        spec.space.low.tolist(),
        spec.space.high.tolist(),
        num_cells=config.num_cells,
        log_std_min=config.log_std_min,
        action_key=key,
    )


if __name__ == "__main__":
    runs.run_recipe(main, CloneConfig)
