"""Options of several runs of one command."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from rlkit_sac.config.options import PositiveInt


@dataclass
class SeveralOptions:
    """Several runs instead of one: seeds, or the trials of a sweep.

    >>> SeveralOptions(seeds="0-2,7").numbers()
    [0, 1, 2, 7]
    >>> SeveralOptions(trials=40, jobs=2).errors()
    []
    >>> SeveralOptions(jobs=2).errors()
    [('jobs', 'give the seeds too, for example --seeds 0,1,2')]
    """

    seeds: str | None = None
    """Run each of these seeds, such as 0,1,2 or 0-4, with a joint table and figure at the end."""

    jobs: PositiveInt = 1
    """Runs at a time, each in a process of its own."""

    trials: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Sweep: search for better options with this many trials, of which --jobs run at a time."""

    space: str | None = None
    """YAML file of the options that the trials change; null for that of the recipe."""

    storage: str | None = None
    """Database of the sweep, such as postgresql://user@host/sweeps; null for a SQLite file in the
    sweep's folder."""

    study: str | None = None
    """Name of the sweep in its storage and of its folder; null for the recipe and the task."""

    pruner: Literal["none", "median", "hyperband"] = "median"
    """Which trials end early: those below the median of others, by hyperband, or none."""

    def numbers(self) -> list[int]:
        """The seeds to run, in order.

        Raises:
            ValueError: if they cannot be read, or one comes twice.
        """
        text = (self.seeds or "").replace(" ", "")
        seeds: list[int] = []
        for part in text.split(","):
            match = re.fullmatch("([0-9]{1,10})(?:-([0-9]{1,10}))?", part)
            found = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
            if not found:
                raise ValueError(f"expected seeds such as 0,1,2 or 0-4, got {text!r}")
            seeds += found
        twice = [seed for seed in seeds if seeds.count(seed) > 1]
        if twice:
            raise ValueError(f"{min(twice)} comes twice in {text!r}")
        if max(seeds) >= 2**32:
            raise ValueError(f"must be >= 0 and < {2**32}, got {max(seeds)}")
        return seeds

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions that do not hold."""
        if self.trials is not None:
            text = "cannot go with --trials, which take the seed of the option seed"
            return [] if self.seeds is None else [("seeds", text)]
        text = "give the number of trials too, for example --trials 40"
        of_sweep = ("space", "storage", "study", "pruner")
        found = [(k, text) for k in of_sweep if getattr(self, k) != getattr(SeveralOptions, k)]
        if self.seeds is None and self.jobs > 1:
            found.append(("jobs", "give the seeds too, for example --seeds 0,1,2"))
        elif self.seeds is not None:
            try:
                self.numbers()
            except ValueError as error:
                found.append(("seeds", str(error)))
        return found
