"""The outermost frame of a recipe: parse, run, and turn known errors into exit codes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from rlkit_sac.errors import ConfigError, RlkitSacError
from rlkit_sac.training.interrupts import is_interrupt
from rlkit_sac.training.parse import parse_config

Config = TypeVar("Config")


def run_recipe(
    main: Callable[[Config], object],
    config_class: type[Config],
    argv: Sequence[str] | None = None,
) -> None:
    """Parse the command line and call ``main(config)``, reporting known errors in one line each.

    Exit codes: 2 for `ConfigError`, 1 for any other `RlkitSacError`, 130 for Ctrl-C. Any other
    exception is a bug and keeps its traceback.

    Args:
        main: the recipe.
        config_class: its configuration dataclass.
        argv: the arguments after the program's name; default ``sys.argv[1:]``.

    Raises:
        SystemExit: with the exit codes above.

    >>> from rlkit_sac.training.config import EnvConfig
    >>> run_recipe(lambda config: print(config.id), EnvConfig, ["--id", "Ant-v5"])
    Ant-v5
    """
    # TorchRL reports each storage it makes; a recipe's own lines are what its user looks for.
    logging.getLogger("torchrl").setLevel(logging.WARNING)
    try:
        main(parse_config(config_class, argv))
    except BaseException as error:
        if is_interrupt(error):
            print("interrupted", file=sys.stderr)
            raise SystemExit(130) from None
        if isinstance(error, RlkitSacError):
            _report(error)
            raise SystemExit(2 if isinstance(error, ConfigError) else 1) from None
        raise


def _report(error: RlkitSacError) -> None:
    for line in str(error).splitlines():
        print(f"error: {line}", file=sys.stderr)
