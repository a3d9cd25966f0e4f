"""Which checkpoint had the best evaluation."""

from __future__ import annotations

import csv
from collections.abc import Container
from math import isnan
from pathlib import Path

from rlkit_sac.errors import RunError


def best_frames(run_path: Path, *, among: Container[int]) -> int | None:
    r"""Frames of the best evaluation, by ``return_mean``; the last of equal ones.

    Args:
        run_path: the run directory, with ``evaluations.csv``.
        among: frames to choose from.

    Returns:
        ``None`` where none of them was evaluated.

    >>> import tempfile
    >>> run = Path(tempfile.mkdtemp())
    >>> best_frames(run, among=[100])
    >>> _ = (run / "evaluations.csv").write_text("frames,return_mean\n100,2.0\n200,1.0\n")
    >>> best_frames(run, among=[100, 200])
    100
    """
    means = evaluation_means(run_path)
    rows = [(mean, frames) for frames, mean in means if frames in among and not isnan(mean)]
    return max(rows)[1] if rows else None


def evaluation_means(run_path: Path) -> list[tuple[int, float]]:
    """Frames and ``return_mean`` of each complete row of ``evaluations.csv``.

    Raises:
        RunError: if it is not what a run writes.
    """
    file = run_path / "evaluations.csv"
    try:
        complete = file.read_text(encoding="utf-8").rpartition("\n")[0]
        rows = csv.DictReader(complete.splitlines())
        return [(int(row["frames"]), float(row["return_mean"])) for row in rows]
    except FileNotFoundError:
        return []
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise RunError(f"{file} is no table of evaluations: {error!r}") from error
