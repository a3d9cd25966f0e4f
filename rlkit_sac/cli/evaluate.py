"""``rlkit-sac evaluate``: run a trained policy on the task of its run.

Examples:
    rlkit-sac evaluate runs/sac/Pendulum-v1/<run>
    rlkit-sac evaluate runs/sac/Pendulum-v1/<run> --which best --episodes 100
    rlkit-sac evaluate runs/sac/Pendulum-v1/<run> --no-deterministic --csv a.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rlkit_sac.cli.run_arguments import add_run, check_run

SUMMARY = "evaluate the policy of a run on the run's own task"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run, and the options of its evaluation."""
    add_run(parser)
    parser.add_argument(
        "--episodes", type=int, metavar="N", help="number of episodes (default: as in training)"
    )
    parser.add_argument(
        "--seed", type=int, help="seed of initial states and samples (default: as in training)"
    )
    parser.add_argument(
        "--deterministic",
        action=argparse.BooleanOptionalAction,
        help="act by the mode of the policy, or by samples (default: as in training)",
    )
    parser.add_argument(
        "--csv", metavar="FILE", help="write a row for each episode to this .csv or .md file"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print a table of returns and lengths, and write the episodes with ``--csv``."""
    check_run(arguments)
    import numpy as np
    import pandas as pd

    from rlkit_sac.analysis import markdown_table, write_table
    from rlkit_sac.analysis.estimates import Estimator
    from rlkit_sac.output import summary_table
    from rlkit_sac.runs import load_policy
    from rlkit_sac.runs.evaluation import per_dimension
    from rlkit_sac.runs.policy import StoredRun, find_policy

    checkpoint = find_policy(Path(arguments.run), arguments.which)
    options = {name: getattr(arguments, name) for name in ("episodes", "seed", "deterministic")}
    stored = StoredRun(checkpoint, **options)
    result = stored.evaluate(load_policy(checkpoint))
    vectors = result.returns_per_dimension
    parts = {} if vectors is None else per_dimension("return", list(vectors.T))
    episodes = pd.DataFrame({"return": result.returns, **parts, "length": result.lengths})
    if result.successes is not None:
        episodes["success"] = result.successes.astype(float)
    statistics = {"mean": episodes.mean(), "std": episodes.std(ddof=0)}
    table = pd.DataFrame({**statistics, "min": episodes.min(), "max": episodes.max()})
    low, high = Estimator().interval(episodes.to_numpy(np.float64).T)
    table = table.assign(**{"mean, 95 % from": low, "to": high})
    rows = {
        "checkpoint": str(checkpoint),
        "task": stored.task.id,
        "actions": "deterministic" if stored.options["deterministic"] else "samples",
        "episodes": f"{len(episodes)}, seed {stored.options['seed']}",
    }
    print(f"{summary_table(rows)}\n\n{markdown_table(table.reset_index(names=''))}", end="")
    if arguments.csv is not None:
        episodes.insert(0, "episode", range(1, len(episodes) + 1))
        write_table(episodes, arguments.csv)
        print(f"\nepisodes in {arguments.csv}")
    return 0
