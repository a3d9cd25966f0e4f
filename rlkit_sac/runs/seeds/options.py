"""The options about several seeds: which to run, how many at a time, and where."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from rlkit_sac.config import PositiveInt, Seed
from rlkit_sac.config.values import value_error

MAX_SEEDS = 1000


@dataclass
class SeedOptions:
    """Several seeds instead of one.

    >>> SeedOptions(seeds="0-2,7").numbers()
    [0, 1, 2, 7]
    >>> SeedOptions(jobs=2).errors()
    [('jobs', 'give the seeds too, for example --seeds 0,1,2')]
    """

    seeds: str | None = None
    """Run each of these seeds, such as 0,1,2 or 0-4, with a joint table and figure at the end."""

    jobs: PositiveInt = 1
    """Seeds that run at a time, each in a process of its own."""

    launcher: Literal["local", "ray"] = "local"
    """Where the seeds run: on this machine, or on any of the Ray cluster at workers.address; its
    machines share logging.dir."""

    def numbers(self) -> list[int]:
        """The seeds to run, in order.

        Raises:
            ValueError: if they cannot be read, are too many, or one comes twice.
        """
        text = (self.seeds or "").replace(" ", "")
        seeds: list[int] = []
        for part in text.split(","):
            match = re.fullmatch("([0-9]{1,10})(?:-([0-9]{1,10}))?", part)
            found = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
            if not found:
                raise ValueError(f"expected seeds such as 0,1,2 or 0-4, got {text!r}")
            if len(seeds) + len(found) > MAX_SEEDS:
                raise ValueError(f"at most {MAX_SEEDS} seeds, got {text!r}")
            seeds += found
        twice = [seed for seed in seeds if seeds.count(seed) > 1]
        if twice:
            raise ValueError(f"{min(twice)} comes twice in {text!r}")
        if error := value_error(seeds, list[Seed]):
            raise error
        return seeds

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions that do not hold."""
        if self.seeds is None:
            advice = "give the seeds too, for example --seeds 0,1,2"
            given = [("jobs", self.jobs > 1), ("launcher", self.launcher != "local")]
            return [(name, advice) for name, is_given in given if is_given]
        try:
            self.numbers()
        except ValueError as error:
            return [("seeds", str(error))]
        return []
