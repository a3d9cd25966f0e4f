"""What the files of runs tell, for all parts of the report."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from rlkit_sac.analysis.config_columns import config_cells, read_config
from rlkit_sac.analysis.files import Paths, read_each
from rlkit_sac.analysis.groups import Key, grouping_columns, split, warn
from rlkit_sac.analysis.run_json import IDENTITY, read_description
from rlkit_sac.analysis.runs import find_runs, load_runs
from rlkit_sac.errors import RunError


@dataclass(frozen=True)
class Results:
    """Everything that is read of some runs.

    Args:
        runs: a row for each run: `run`, `recipe`, `task`, `seed`, `status`, the columns of `by`.
        by: the grouping columns besides the task.
        descriptions: the ``run.json`` of each run.
        configs: the ``config.yaml`` of each run whose file can be read, by dotted names.
        evaluations: that table of all runs, as the other two; empty if no run has rows.
        episodes: see there.
        metrics: see there.
    """

    runs: pd.DataFrame
    by: list[str]
    descriptions: dict[str, dict[str, Any]]
    configs: dict[str, dict[str, Any]]
    evaluations: pd.DataFrame
    episodes: pd.DataFrame
    metrics: pd.DataFrame

    @cached_property
    def groups(self) -> list[Key]:
        """The keys of all groups, without the task, in the order of their colors."""
        return [key for key, _ in split(self.runs, self.by)]

    def group_of(self, key: Key) -> int:
        """The number of the group of a key, which may have more entries."""
        return self.groups.index({name: key[name] for name in self.by})

    @cached_property
    def root(self) -> str:
        """The folder that all runs lie in."""
        return os.path.commonpath([Path(run).parent for run in self.runs["run"]])

    @cached_property
    def names(self) -> dict[str, str]:
        """The runs' directories, each with the name that the page shows, relative to all."""
        return {run: Path(run).relative_to(self.root).as_posix() for run in self.runs["run"]}


def read_results(paths: Paths, by: str | Sequence[str]) -> Results:
    """Read all tables of all runs at or below some paths.

    Damaged runs and tables are left out with warnings.

    Args:
        paths: as of :func:`load_runs`.
        by: the grouping columns besides the task: `recipe`, `seed`, `status`, `run`, and values
            of the configuration by dotted name.

    Raises:
        ConfigError: a path does not exist, there is no run, or no configuration has a value that
            `by` names.
        RunError: no run can be read.
    """
    names = grouping_columns(by)
    settings = [name for name in names if name not in (*IDENTITY, "run")]

    def read(run: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
        description = read_description(run / "run.json")
        try:
            return description, read_config(run / "config.yaml")
        except RunError as error:
            if settings:
                raise
            warnings.warn(f"no configuration of a run: {error}", stacklevel=2)
            return description, None

    read_runs = read_each(find_runs(paths), read)
    identities = [{key: info[key] for key in IDENTITY} for info, _ in read_runs.values()]
    runs = pd.DataFrame(identities)
    runs.insert(0, "run", [str(run) for run in read_runs])
    configs = {str(run): config for run, (_, config) in read_runs.items() if config is not None}
    for name, cells in config_cells(list(configs.values()), settings).items():
        runs[name] = cells
    evaluations = _table(list(read_runs), "evaluations", settings)
    for run, rows in evaluations.groupby("run") if len(evaluations) else ():
        _warn_of_unsaved(Path(str(run)), rows)
    return Results(
        runs,
        names,
        {str(run): info for run, (info, _) in read_runs.items()},
        configs,
        evaluations,
        _table(list(read_runs), "episodes", settings),
        _table(list(read_runs), "metrics", settings),
    )


def _table(
    runs: Sequence[Path], table: Literal["evaluations", "episodes", "metrics"], settings: list[str]
) -> pd.DataFrame:
    try:
        return load_runs(runs, table=table, config=settings or False)
    except RunError as error:
        warnings.warn(f"no {table} of any run: {error}", stacklevel=2)
        return pd.DataFrame()


def _warn_of_unsaved(run: Path, evaluations: pd.DataFrame) -> None:
    """Warn of evaluations of an unfinished run whose policies are in no checkpoint."""
    if evaluations["status"].iloc[0] == "finished":
        return
    saved = [file.parent.name for file in run.glob("checkpoints/step_*/checkpoint.json")]
    last = max((int(name.removeprefix("step_")) for name in saved), default=0)
    if count := int((evaluations["frames"] > last).sum()):
        warn(
            f"{run} is not finished: its evaluations after the last checkpoint, at frame {last}, "
            f"are of policies that are not stored ({count}); a resumed run repeats them"
        )
