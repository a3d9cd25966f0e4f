"""``rlkit-sac clone``: a policy that acts as in the replay of a run, or in demonstrations.

Examples:
    rlkit-sac clone runs/sac/Hopper-v5/<run> cloned --env.id Hopper-v5
    rlkit-sac clone demonstrations cloned --env.id Platform-v0 --updates 2000
    rlkit-sac train hybrid_sac --prior.kind policy --prior.run cloned

The data are a run directory, or a folder that TensorDict.save wrote. Options
are --updates, --num_cells, --log_std_min, --seed, and those of the section env.
"""

from __future__ import annotations

import argparse
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
    from rlkit_sac.config import parse_config
    from rlkit_sac.config.cloning import CloneConfig

    config: Any = parse_config(CloneConfig, arguments.options)
    import torch

    from rlkit_sac.envs import closing_env, describe_task, make_env
    from rlkit_sac.runs import clone_policy, evaluate, read_prior_data, save_policy
    from rlkit_sac.runs.preflight import limit_episodes

    limit_episodes(config.env, None)
    task, names = config.env, ("num_cells", "log_std_min", "updates")
    data = read_prior_data(arguments.data)
    torch.manual_seed(config.seed)
    torch.set_num_threads(1)  # of small networks, as in training
    with closing_env(make_env(task.id, **task.arguments())) as env:
        policy = clone_policy(data, env, **{name: getattr(config, name) for name in names})
        save_policy(arguments.folder, policy, task=describe_task(env))
        result = evaluate(policy, env, episodes=10, seed=config.seed)
    returns = f"{result.returns.mean():.2f} ± {result.returns.std():.2f}"
    print(f"{arguments.folder}: cloned from {data.numel():,} transitions")
    print(f"return {returns} ({len(result.returns)} episodes)")
    return 0
