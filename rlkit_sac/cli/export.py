"""``rlkit-sac export``: the policy of a run as one file that acts without this package.

Examples:
    rlkit-sac export runs/sac/Pendulum-v1/<run>
    rlkit-sac export runs/sac/Pendulum-v1/<run> --format torch --output a.pt2
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rlkit_sac.cli.run_arguments import add_run, check_run
from rlkit_sac.trained_policies import find_run, output_folder

SUMMARY = "write the policy of a run to an ONNX file, or to a program of PyTorch"

_SUFFIXES = {"onnx": ".onnx", "torch": ".pt2"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run, and the format and path of the file."""
    add_run(parser)
    parser.add_argument(
        "--format",
        choices=tuple(_SUFFIXES),
        default="onnx",
        help="format of the file: onnx, or torch for torch.export.load (default: onnx)",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="path (default: policy.onnx or policy.pt2 in RUN; here for zoo:)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the file, and print the inputs and outputs of the policy."""
    check_run(arguments)
    from rlkit_sac.output import summary_table
    from rlkit_sac.runs import export_policy

    run = find_run(arguments.run)
    folder = run.parents[1] if run.parent.name == "checkpoints" else run
    path = Path(arguments.output or output_folder(folder) / f"policy{_SUFFIXES[arguments.format]}")
    metadata = export_policy(arguments.run, path, format=arguments.format, which=arguments.which)
    print(summary_table({**metadata["inputs"], **metadata["outputs"], "file": str(path)}))
    return 0
