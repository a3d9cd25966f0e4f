"""The command line's `--seeds` and `--jobs`: which seeds to run, and how many at a time."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any, get_type_hints

from rlkit_sac.config.bounds import bounds_of
from rlkit_sac.errors import ConfigError

HELP = """
several seeds:
  --seeds SEEDS         Run each of these seeds, such as 0,1,2 or 0-4, with a joint table and figure
                        at the end.
  --jobs N              Seeds that run at a time, each in a process of its own. (default: 1)"""
MAX_SEEDS = 1000


@dataclasses.dataclass(frozen=True)
class SeedOptions:
    """The seeds to run, in order.

    >>> SeedOptions(seeds=(0, 1, 2), text="0-2").jobs
    1
    """

    seeds: tuple[int, ...]
    text: str
    """The seeds as they were given."""
    jobs: int = 1
    """Seeds that run at a time."""


def split_seed_options(
    argv: Sequence[str],
) -> tuple[SeedOptions | None, list[str], list[str]]:
    """Take ``--seeds`` and ``--jobs`` out of a command line.

    Args:
        argv: the arguments after the program's name.

    Returns:
        The options, ``None`` without ``--seeds`` or if they cannot be read; the other arguments;
        and a line for each problem.

    >>> split_seed_options(["--seeds", "0-2,7", "--device", "cpu"])
    (SeedOptions(seeds=(0, 1, 2, 7), text='0-2,7', jobs=1), ['--device', 'cpu'], [])
    >>> split_seed_options(["--jobs=2"])
    (None, [], ['--jobs: give the seeds too, for example --seeds 0,1,2'])
    """
    given: dict[str, str] = {}
    others: list[str] = []
    problems: list[str] = []
    words = list(argv)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if name not in ("--seeds", "--jobs"):
            others.append(word)
        elif equals:
            given[name] = value
        elif words and not words[0].startswith("--"):
            given[name] = words.pop(0)
        else:
            problems.append(f"{name}: needs a value; write {name} VALUE")
    if problems or not given:
        return None, others, problems
    if "--seeds" not in given:
        return None, others, ["--jobs: give the seeds too, for example --seeds 0,1,2"]
    if any(word.partition("=")[0] == "--seed" for word in others):
        problems.append("--seeds: give either --seed or --seeds")
    try:
        text = given["--seeds"].replace(" ", "")
        options = SeedOptions(_seeds(text), text, _jobs(given.get("--jobs", "1")))
    except ConfigError as error:
        return None, others, [*problems, str(error)]
    return options, others, problems


def seed_errors(config: Any, options: SeedOptions) -> list[str]:
    """A line for each reason why a configuration cannot be run with these seeds.

    Args:
        config: a configuration dataclass with a field ``seed``.
        options: the seeds.

    >>> from rlkit_sac.config.bounds import Seed
    >>> config = dataclasses.make_dataclass("Config", [("seed", Seed)])(0)
    >>> seed_errors(config, SeedOptions((3, 2**32), ""))
    ['--seeds: must be >= 0 and < 4294967296, got 4294967296']
    """
    hint = get_type_hints(type(config), include_extras=True)["seed"]
    problems = [
        f"--seeds: must be {bound}, got {seed}"
        for seed in options.seeds
        for bound in bounds_of(hint)
        if not bound.contains(seed)
    ]
    if getattr(config, "resume", None) is not None:
        problems.append("--seeds: cannot go with --resume; continue each run by itself")
    return problems


def _seeds(text: str) -> tuple[int, ...]:
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch("([0-9]{1,10})(?:-([0-9]{1,10}))?", part)
        found = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
        if not found:
            raise ConfigError(f"--seeds: expected seeds such as 0,1,2 or 0-4, got {text!r}")
        if len(seeds) + len(found) > MAX_SEEDS:
            raise ConfigError(f"--seeds: at most {MAX_SEEDS} seeds, got {text!r}")
        seeds += found
    twice = sorted({seed for seed in seeds if seeds.count(seed) > 1})
    if twice:
        raise ConfigError(f"--seeds: {twice[0]} comes twice in {text!r}")
    return tuple(seeds)


def _jobs(text: str) -> int:
    if not re.fullmatch("[0-9]{1,10}", text) or int(text) < 1:
        raise ConfigError(f"--jobs: must be an integer >= 1, got {text!r}")
    return int(text)
