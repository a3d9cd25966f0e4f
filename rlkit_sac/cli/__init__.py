"""The command ``rlkit-sac``: train, resume, evaluate, record and export, report, check tasks.

Each command is a file, which imports PyTorch only to run, so that ``--help`` is quick.

Examples:
    rlkit-sac train sac            train on Pendulum-v1, a few CPU minutes
    rlkit-sac train sac --help     the options of a recipe
    rlkit-sac recipes              all recipes and their configurations
    rlkit-sac resume runs/sac/Pendulum-v1/<run> --collector.total_frames 20000
    rlkit-sac evaluate runs/sac/Pendulum-v1/<run> --episodes 100

`rlkit-sac COMMAND --help` describes a command.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from rlkit_sac._version import __version__
from rlkit_sac.cli import (
    check_env,
    evaluate,
    export,
    policies,
    recipes,
    report,
    resume,
    train,
    video,
)
from rlkit_sac.errors import ConfigError, RlkitSacError, error_text
from rlkit_sac.output import drop_failed_output
from rlkit_sac.signals import end_on_interrupt

_MODULES = (train, recipes, policies, resume, evaluate, video, export, report, check_env)
#: The module of each command, by the name of the command. It has examples in its docstring,
#: ``SUMMARY``, ``add_arguments(parser)``, and ``run(arguments)``, which returns the exit code.
COMMANDS = {file.__name__.rpartition(".")[2].replace("_", "-"): file for file in _MODULES}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, and report each known error in one line.

    Args:
        argv: the arguments after the program's name. Default: ``sys.argv[1:]``.

    Returns:
        The exit code: 2 for a `ConfigError`, 1 for any other `RlkitSacError`, else the exit code of
        the command. Ctrl-C ends the process at once; a recipe that trains saves first.

    Raises:
        SystemExit: for ``--help``, ``--version``, wrong arguments, and a recipe that fails.

    >>> main(["evaluate", "nowhere"])  # prints an error
    2
    """
    drop_failed_output()
    parser = argparse.ArgumentParser(
        prog="rlkit-sac",
        description="Soft actor-critic and ACER: train, resume and evaluate policies.",
        epilog=_examples(__doc__),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"rlkit_sac {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(
            name,
            help=command.SUMMARY,
            description=command.SUMMARY,
            epilog=_examples(command.__doc__),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(subparser)
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help()
        return 0
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.append(os.getcwd())  # for the module of a user's own environment
    try:
        with end_on_interrupt():
            return COMMANDS[arguments.command].run(arguments)
    except RlkitSacError as error:
        print(error_text(error), file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1


def _examples(docstring: str | None) -> str:
    """Return the examples in a docstring, with their heading."""
    return "".join((docstring or "").partition("Examples:")[1:])
