"""``rlkit-sac policies``: list the trained policies that come with the package.

Examples:
    rlkit-sac policies
    rlkit-sac evaluate zoo:sac/HalfCheetah-v5
"""

from __future__ import annotations

import argparse
import csv

from rlkit_sac.trained_policies import trained_policies

SUMMARY = "list the trained policies that come with the package"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the command takes no arguments."""


def run(arguments: argparse.Namespace) -> int:
    """Print the name of each policy, its frames of training, and its return."""
    print(f"{'policy':<34}{'frames':>9}{'return':>10}{'± std':>9}{'success':>9}")
    for name, folder in trained_policies().items():
        with (folder / "evaluations.csv").open(encoding="utf-8") as file:
            (row,) = csv.DictReader(file)
        mean, std = float(row["return_mean"]), float(row["return_std"])
        success = row.get("success_rate") or "-"
        print(f"{name:<34}{int(row['frames']):>9,}{mean:>10,.1f}{std:>9,.1f}{success:>9}")
    print("\nMeasured from these files in 100 episodes, with the mode of the policy.")
    return 0
