"""What the files of runs tell, for all parts of the report."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from rlkit_sac.analysis.config_columns import config_cells, read_config
from rlkit_sac.analysis.external import find_external_runs, load_external_runs
from rlkit_sac.analysis.files import Paths, as_paths, read_each
from rlkit_sac.analysis.groups import Key, grouping_columns, select_rows, split, warn
from rlkit_sac.analysis.runs import IDENTITY, TABLES, find_runs, load_runs, read_description
from rlkit_sac.errors import ConfigError, RunError


@dataclass(frozen=True)
class Results:
    """Everything that is read of some runs.

    Args:
        runs: a row for each run: `run`, `recipe`, `task`, `seed`, `status`, the columns of `by`.
        by: the grouping columns besides the task.
        descriptions: the ``run.json`` of each run of a recipe.
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
        return os.path.commonpath([Path(run).absolute().parent for run in self.runs["run"]])

    @cached_property
    def names(self) -> dict[str, str]:
        """The runs' directories, each with the name that the page shows, relative to all."""
        paths = {run: Path(run).absolute() for run in self.runs["run"]}
        return {run: path.relative_to(self.root).as_posix() for run, path in paths.items()}


def read_results(
    source: Paths | pd.DataFrame, by: str | Sequence[str] | None, task: str | None = None
) -> Results:
    """Read all tables of all runs at or below some paths, of recipes and of other systems.

    Damaged runs and tables are left out with warnings.

    Args:
        source: paths, or a table, of :func:`load_runs` and :func:`load_external_runs`.
        by: the grouping columns besides the task: `recipe`, `seed`, `status`, `run`, and values
            of the configuration by dotted name, or columns of the table.
        task: of the logs of other systems.

    Raises:
        ConfigError: a path does not exist, there is no run, no configuration has a value that
            `by` names, or the table lacks a column.
        RunError: no run can be read.
    """

    def read(run: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
        description = read_description(run / "run.json")
        try:
            return description, read_config(run / "config.yaml")
        except RunError as error:
            if settings:
                raise
            warnings.warn(f"no configuration of a run: {error}", stacklevel=2)
            return description, None

    if isinstance(source, pd.DataFrame):
        names = grouping_columns(by, source)
        rows = select_rows(source, ["run", "task", "frames"], names)
        rows = rows.assign(run=rows["run"].map(str))
        kind = next(name for name, columns in TABLES.items() if set(columns) <= set(rows))
        tables = dict.fromkeys(TABLES, pd.DataFrame()) | {kind: rows}
        return Results(_runs_of(rows, names), names, {}, {}, **tables)
    paths = as_paths(source)
    logs = find_external_runs(paths)
    found = find_runs([path for path in paths if not path.is_file()], required=not logs)
    names = grouping_columns(by, IDENTITY if found else ())
    settings = [name for name in names if name not in (*IDENTITY, "run")]
    read_runs = read_each(found, read) if found else {}
    identities = [{key: info[key] for key in IDENTITY} for info, _ in read_runs.values()]
    runs = pd.DataFrame(identities, columns=list(IDENTITY))
    runs.insert(0, "run", [str(run) for run in read_runs])
    configs = {str(run): config for run, (_, config) in read_runs.items() if config is not None}
    for setting, cells in config_cells(list(configs.values()), settings).items():
        runs[setting] = cells
    tables = {}
    for name in TABLES:
        parts: list[pd.DataFrame] = []
        if read_runs:
            parts += _table(load_runs, list(read_runs), table=name, config=settings or False)
        for run, rows in parts[0].groupby("run") if parts and name == "evaluations" else ():
            _warn_of_unsaved(Path(str(run)), rows)
        if logs and name != "metrics":
            parts += _table(load_external_runs, paths, table=name, task=task)
        tables[name] = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    others = [_runs_of(table, names) for table in tables.values() if len(table)]
    return Results(
        pd.concat([runs, *others], ignore_index=True).drop_duplicates("run"),
        names,
        {str(run): info for run, (info, _) in read_runs.items()},
        configs,
        **tables,
    )


def _runs_of(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """What a table tells of its runs."""
    columns = dict.fromkeys(["run", *IDENTITY, *names])
    runs = table.drop_duplicates("run").reindex(columns=list(columns)).astype(object)
    return runs.where(runs.notna(), None)


def _table(load: Callable[..., pd.DataFrame], runs: Paths, **options: Any) -> list[pd.DataFrame]:
    try:
        rows = load(runs, **options)
    except (ConfigError, RunError) as error:
        warnings.warn(f"no {options['table']} were read: {error}", stacklevel=2)
        return []
    return [rows] if len(rows) else []


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
