"""How much the actions of trained policies change from step to step, and what they earn.

    python recipes/benchmarks/action_change.py runs/sac runs/kl_prior_sac
    python recipes/benchmarks/action_change.py runs --episodes 20 --figure change.png

Takes every finished run below the folders, lets its newest policy act as it does in training (each
action a sample) and measures, over the steps of all episodes but their first,

    change = mean over steps and dimensions of |a_t - a_{t-1}|, in the units of the action entry

Prints and writes a row for each run. The figure has its change and return as a point, and needs the
extra ``plots``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd
import torch
import yaml
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.analysis import load_runs
from rlkit_sac.config import EnvConfig
from rlkit_sac.envs import closing_env, make_env
from rlkit_sac.runs import evaluation_seed, load_policy, seed_everything


def main() -> None:
    """Measure the runs, print the table, write it and the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folders", nargs="+", help="run directories, or folders above them")
    parser.add_argument("--episodes", type=int, default=10, help="episodes of each run")
    parser.add_argument("--output", type=Path, default=Path("action_change.csv"))
    parser.add_argument("--figure", type=Path, default=None)
    arguments = parser.parse_args()

    rows = []
    for folder in arguments.folders:
        finished = load_runs(folder).query("status == 'finished'")
        rows += [measure(Path(run), arguments.episodes) for run in finished["run"].unique()]
    table = pd.DataFrame(rows)
    table.to_csv(arguments.output, index=False)
    print(table.drop(columns="run").to_string(index=False, float_format="{:.4g}".format))
    names = ["task", "prior", "target_kld_per_dim"]
    means = table.groupby(names, dropna=False)[["change", "return"]].agg(["mean", "std", "count"])
    print(means.to_string(float_format="{:.4g}".format))
    if arguments.figure is not None:
        draw(table, arguments.figure)


def measure(run: Path, episodes: int) -> dict[str, Any]:
    """Change and return of a run's policy.

    Args:
        run: its directory.
        episodes: how many.
    """
    config = yaml.safe_load((run / "config.yaml").read_text())
    options = config["env"]
    policy = load_policy(run)
    seed = evaluation_seed(config["seed"])
    seed_everything(seed)
    changes, returns = [], []
    env = make_env(options["id"], **EnvConfig(**options).arguments(), seed=seed)
    with closing_env(env), torch.no_grad(), set_exploration_type(ExplorationType.RANDOM):
        for _ in range(episodes):
            episode = env.rollout(1_000_000, policy)
            changes.append(episode["action"].diff(dim=0).abs().mean(-1))
            returns.append(episode["next", "reward"].sum().item())
    prior, loss = config.get("prior", {}), config["loss"]
    name = prior.get("kind", "none")
    if name == "same_action":
        name += f", p = {prior['same_action_prob']:g}"
    return {
        "task": options["id"],
        "prior": name,
        "target_kld_per_dim": None if loss["fixed_alpha"] else loss.get("target_kld_per_dim"),
        "seed": config["seed"],
        "change": torch.cat(changes).mean().item(),
        "return": sum(returns) / episodes,
        "run": str(run),
    }


def draw(table: pd.DataFrame, path: Path) -> None:
    """A point for each run, a color for each setting, an axis for each task."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    tasks = sorted(table["task"].unique())
    figure, axes = pyplot.subplots(1, len(tasks), figsize=(5 * len(tasks), 4), squeeze=False)
    for axis, task in zip(axes[0], tasks, strict=True):
        rows = table[table["task"] == task]
        for (prior, target), runs in rows.groupby(["prior", "target_kld_per_dim"], dropna=False):
            name = prior if pd.isna(target) else f"{prior}, {target:g} nats per dimension"
            axis.scatter(runs["change"], runs["return"], label=name)
        axis.set(title=task, xlabel="change of the action per step", ylabel="return, sampled")
        axis.set_xlim(left=0)
        axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
