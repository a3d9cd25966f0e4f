"""The command line as options and their texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Setting:
    """One value given for an option, on the command line or in a file."""

    key: str
    value: Any
    """What was given; ``None`` for an option of the command line without a value."""
    where: str
    """How errors name its place: ``--seed``, or ``pendulum.yaml:3: seed``."""
    on_command_line: bool = False
    """Its value is a text then, if any, which the option's type says how to read."""


def read_command_line(argv: Sequence[str]) -> tuple[list[Setting], list[str]]:
    r"""Split a command line into options.

    They are written ``--name value`` or ``--name=value``, and ``--help`` or ``-h`` without a value;
    ``--name=`` has none, as when the variable of a shell is empty.

    Args:
        argv: the arguments after the program's name.

    Returns:
        the options in their order, also those that lack a value, and a line for each problem.

    >>> settings, problems = read_command_line(["--loss.gamma", "0.9", "x", "--seed"])
    >>> [(setting.key, setting.value) for setting in settings]
    [('loss.gamma', '0.9'), ('seed', None)]
    >>> problems
    ["unexpected argument 'x'; options are written --name value"]
    """
    settings: list[Setting] = []
    problems: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word in ("-h", "--help"):
            settings.append(Setting("help", None, word, on_command_line=True))
        elif not name.startswith("--") or name == "--":
            problems.append(f"unexpected argument {word!r}; options are written --name value")
        else:
            text = value or None
            if not equals and rest and not rest[0].startswith("--"):
                text = rest.pop(0)
            settings.append(Setting(name[2:], text, name, on_command_line=True))
    return settings, problems
