"""Arguments that several commands share: the policy of a run, and the options of a recipe."""

from __future__ import annotations

import argparse
import os

from rlkit_sac.errors import refuse
from rlkit_sac.trained_policies import find_run


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add ``RUN``, a run directory or a checkpoint, and ``--which``."""
    parser.add_argument(
        "run",
        metavar="RUN",
        help="run directory, one of its checkpoints/step_<frames>, or the name of a trained policy",
    )
    parser.add_argument(
        "--which",
        choices=("last", "best"),
        default="last",
        help="newest checkpoint, or checkpoint of the best evaluation (default: last)",
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add ``options``: all words after the other arguments."""
    options = parser.add_argument("options", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options.required = False  # else an error about other arguments asks for them too


def check_run(arguments: argparse.Namespace) -> None:
    """Refuse wrong arguments before PyTorch is imported.

    Raises:
        ConfigError: arguments are wrong; the error has a line for each.

    >>> check_run(argparse.Namespace(run="nowhere", episodes=0))
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: nowhere is not a folder; give a run directory
    --episodes: must be >= 1, got 0
    """
    values, problems = vars(arguments), []
    if not os.path.isdir(find_run(arguments.run)):
        problems.append(f"{arguments.run} is not a folder; give a run directory")
    if (episodes := values.get("episodes")) is not None and episodes < 1:
        problems.append(f"--episodes: must be >= 1, got {episodes}")
    if (seed := values.get("seed")) is not None and not 0 <= seed < 2**32:
        problems.append(f"--seed: must be >= 0 and < {2**32}, got {seed}")
    refuse(problems)
