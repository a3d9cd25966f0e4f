"""``rlkit-sac policies``: list the trained policies that come with the package.

Examples:
    rlkit-sac policies
    rlkit-sac evaluate zoo:sac/HalfCheetah-v5
"""

from __future__ import annotations

import argparse

from rlkit_sac.trained_policies import trained_policies

SUMMARY = "list the trained policies that come with the package"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the command takes no arguments."""


def run(arguments: argparse.Namespace) -> int:
    """Print the name of each policy, its frames of training, and its return."""
    import pandas as pd

    found = {n: pd.read_csv(path / "evaluations.csv") for n, path in trained_policies().items()}
    table = pd.concat(found).droplevel(1)
    columns = ["frames", "return_mean", "return_std", "success_rate", "episodes"]
    print(table.to_string(columns=columns, na_rep="-", float_format="{:,.2f}".format))
    print("\nReturns are those of these files, with the mode of the policy.")
    return 0
