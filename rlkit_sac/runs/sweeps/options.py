"""The options of several runs: of seeds, or of the trials of a sweep."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from rlkit_sac.runs.seeds.options import SeedOptions


@dataclass
class SweepOptions(SeedOptions):
    """Several runs instead of one: seeds, or the trials of a sweep.

    >>> SweepOptions(trials=40, jobs=2).errors()
    []
    >>> SweepOptions(pruner="none").errors()
    [('pruner', 'give the number of trials too, for example --trials 40')]
    """

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

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions that do not hold."""
        if self.trials is not None:
            text = "cannot go with --trials, which take the seed of the option seed"
            return [] if self.seeds is None else [("seeds", text)]
        own = [field for field in dataclasses.fields(self) if not hasattr(SeedOptions, field.name)]
        text = "give the number of trials too, for example --trials 40"
        given = [field.name for field in own if getattr(self, field.name) != field.default]
        return [*super().errors(), *((name, text) for name in given)]
