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
    where: str
    """How errors name its place: ``--seed``, or ``pendulum.yaml:3: seed``."""
    on_command_line: bool = False
    """Its value is a text then, which the option's type says how to read."""


def read_command_line(argv: Sequence[str]) -> tuple[list[Setting], list[str]]:
    r"""Split a command line into options.

    They are written ``--name value`` or ``--name=value``, and ``--help`` or ``-h`` without a value.

    Args:
        argv: the arguments after the program's name.

    Returns:
        the options in their order, and a line for each problem.

    >>> settings, problems = read_command_line(["--loss.gamma", "0.9", "x", "--seed"])
    >>> [(setting.key, setting.value) for setting in settings]
    [('loss.gamma', '0.9')]
    >>> print("\n".join(problems))
    unexpected argument 'x'; options are written --name value
    --seed: needs a value; write --seed VALUE
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
        elif not equals and (not rest or rest[0].startswith("--")):
            problems.append(f"{name}: needs a value; write {name} VALUE")
        else:
            text = value if equals else rest.pop(0)
            settings.append(Setting(name[2:], text, name, on_command_line=True))
    return settings, problems
