"""Statistics of training episodes."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from rlkit_sac.analysis.groups import split

LAST = 100  # episodes at the end of a run


def episode_statistics(episodes: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Tabulate the training episodes of each task and group.

    Args:
        episodes: a table of `load_runs(..., table="episodes")`.
        by: the grouping columns besides the task.

    Returns:
        One row for each task and group: `runs`, `episodes` of all runs together, and the means over
        the runs of their mean `length`, mean `return`, mean return of their last 100 episodes, and
        share of episodes that `terminated` by themselves; NaN where a table does not tell.

    Example:
        >>> episodes = pd.DataFrame({
        ...     "run": ["a", "a", "b"], "task": "X", "frames": [1, 2, 9], "return": [1.0, 2.0, 9.5],
        ... })
        >>> episode_statistics(episodes, [])[["task", "runs", "episodes", "return"]]
          task  runs  episodes  return
        0    X     2         3     5.5
    """
    rows = []
    for key, group in split(episodes, ["task", *by]):
        runs = group.groupby("run")
        # A row is one episode, or the means of so many.
        counts = group.get("episodes", pd.Series(index=group.index, dtype=float)).fillna(1)
        row = {**key, "runs": runs.ngroups, "episodes": int(counts.sum())}
        for name in ("length", "return", "terminated"):
            # A column of flags that lacks one holds objects.
            cells = group[name] if name in group else pd.Series(index=group.index, dtype=float)
            cells = cells.map(lambda cell: {"true": 1, "false": 0}.get(str(cell).lower(), cell))
            numbers = pd.to_numeric(cells, errors="coerce").astype(float)
            sums = (numbers * counts).groupby(group["run"]).sum(min_count=1)
            row[name] = (sums / counts.where(numbers.notna()).groupby(group["run"]).sum()).mean()
        row[f"return of last {LAST}"] = runs["return"].apply(lambda x: x.iloc[-LAST:].mean()).mean()
        rows.append(row)
    return pd.DataFrame(rows)
