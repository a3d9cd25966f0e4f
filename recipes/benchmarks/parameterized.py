"""How often trained policies of parameterized tasks reach the goal, and what masked critics change.

    rlkit-sac train hybrid_sac --config goal --seeds 0,1,2
    rlkit-sac train hybrid_sac --config goal --seeds 0,1,2 --loss.mask_critics false
    python recipes/benchmarks/parameterized.py RUN RUN RUN RUN RUN RUN

Plays deterministic episodes with the last policy of each run of Platform-v0, Goal-v0 or
HardMove-v1, the same for all. One table has a row for each run. The other compares runs with masked
critics with those without, in pairs of the same task and seed: the mean of their differences, with
a 95 % interval of Student's t over the seeds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gymnasium as gym
import numpy as np
import pandas as pd
import yaml
from scipy import stats

import rlkit_sac.envs  # noqa: F401  (registers the tasks)
from rlkit_sac.runs import load_policy

FIRST_SEED = 10_000


def main() -> None:
    """Play and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, help="run directories")
    parser.add_argument("--episodes", type=int, default=1000, help="of each policy")
    parser.add_argument("--output", help="CSV file for the row of each run")
    arguments = parser.parse_args()
    table = pd.DataFrame([play(run, arguments.episodes) for run in arguments.runs])
    table = table.sort_values(["task", "masked", "seed"], ignore_index=True)
    print(table.to_string(index=False, float_format="{:.3f}".format))
    print(differences(table).to_string(index=False, float_format="{:.3f}".format))
    if arguments.output is not None:
        table.to_csv(arguments.output, index=False)


def play(run: Path, episodes: int) -> dict[str, object]:
    """Mean return, and share of episodes that reach the goal, of the last policy of a run."""
    config, policy = yaml.safe_load((run / "config.yaml").read_text()), load_policy(run)
    task = config["env"]["id"]
    env = gym.make(f"rlkit_sac/{task}", **config["env"]["kwargs"])
    returns, reached = np.zeros(episodes), np.zeros(episodes)
    for episode in range(episodes):
        observation, _ = env.reset(seed=FIRST_SEED + episode)
        over = False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(policy.act(observation))
            returns[episode] += reward
            over = terminated or truncated
        # Platform pays all the way, and 1 in all; the others pay the most in the step that arrives.
        reached[episode] = returns[episode] > 0.9999 if task == "Platform-v0" else reward > 4
    return {
        "task": task,
        "masked": config["loss"]["mask_critics"],
        "seed": config["seed"],
        "return": returns.mean(),
        "reached": reached.mean(),
    }


def differences(table: pd.DataFrame) -> pd.DataFrame:
    """Masked minus unmasked, over the seeds of each task that both have."""
    rows = []
    for task, group in table.groupby("task", sort=False):
        for column in ("return", "reached"):
            pairs = group.pivot_table(index="seed", columns="masked", values=column).dropna()
            if pairs.shape[1] < 2 or len(pairs) < 2:
                continue
            difference = pairs[True] - pairs[False]
            half = stats.t.ppf(0.975, len(pairs) - 1) * stats.sem(difference)
            mean = difference.mean()
            rows.append(
                {
                    "task": task,
                    "of": column,
                    "pairs": len(pairs),
                    "difference": mean,
                    "low": mean - half,
                    "high": mean + half,
                }
            )
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()
