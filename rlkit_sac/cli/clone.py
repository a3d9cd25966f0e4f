"""``rlkit-sac clone``: a policy that acts as in the replay of a run, or in demonstrations.

Examples:
    rlkit-sac clone runs/sac/Hopper-v5/<run> cloned --env.id Hopper-v5
    rlkit-sac clone demonstrations cloned --env.id Platform-v0 --updates 2000
    rlkit-sac train hybrid_sac --prior.kind policy --prior.run cloned

The data are a run directory, or a folder that TensorDict.save wrote. Options
are --updates, --log_std_min, --seed, and those of the section env.
"""

from __future__ import annotations

import argparse
from dataclasses import field, make_dataclass
from typing import Any

from rlkit_sac.cli.recipe_files import add_options

SUMMARY = "clone a policy from data, for a prior or to look at"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the data are and the policy goes; what comes after are options."""
    parser.usage = "rlkit-sac clone DATA FOLDER --env.id ID [--OPTION VALUE ...]"
    parser.add_argument("data", metavar="DATA", help="run directory, or folder of a TensorDict")
    parser.add_argument("folder", metavar="FOLDER", help="of policy.safetensors and policy.json")
    add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Clone the policy, save it, and evaluate it on the task."""
    from rlkit_sac.config import EnvConfig, parse_config

    env_section = ("env", EnvConfig, field(default_factory=EnvConfig))
    numbers = [("updates", int, 5_000), ("log_std_min", float, -2.0), ("seed", int, 0)]
    config: Any = parse_config(make_dataclass("", [env_section, *numbers]), arguments.options)
    import torch

    from rlkit_sac.envs import closing_env, describe_task, make_env
    from rlkit_sac.runs import clone_policy, evaluate, read_prior_data, save_policy
    from rlkit_sac.runs.preflight import limit_episodes

    task, seed, data = config.env, config.seed, read_prior_data(arguments.data)
    limit_episodes(task, None)
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # of small networks, as in training
    with closing_env(make_env(task.id, **task.arguments())) as env:
        policy = clone_policy(data, env, updates=config.updates, log_std_min=config.log_std_min)
        save_policy(arguments.folder, policy, task=describe_task(env))
        returns = evaluate(policy, env, episodes=10, seed=seed).returns
    print(f"{arguments.folder}: cloned from {data.numel():,} transitions")
    print(f"return {returns.mean():.2f} ± {returns.std():.2f} ({len(returns)} episodes)")
    return 0
