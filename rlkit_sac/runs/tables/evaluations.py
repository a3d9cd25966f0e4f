"""The table ``evaluations.csv`` of a run as it is read: its rows, and the best of them."""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from pathlib import Path

from rlkit_sac.errors import RunError
from rlkit_sac.runs.files import os_errors_named


def best_frames(run_path: Path, *, among: Collection[int]) -> int | None:
    r"""Frames of the best evaluation, by ``return_mean``; the last of equal ones.

    Args:
        run_path: the run directory, with ``evaluations.csv``.
        among: frames to choose from.

    Returns:
        ``None`` where none of them was evaluated.

    Raises:
        RunError: as :func:`evaluation_rows`, for rows up to the last of these frames.

    >>> import tempfile
    >>> run = Path(tempfile.mkdtemp())
    >>> best_frames(run, among=[100])
    >>> _ = (run / "evaluations.csv").write_text("frames,return_mean\n100,2.0\n200,1.0\n")
    >>> best_frames(run, among=[100, 200])
    100
    """
    rows = evaluation_rows(run_path, until=max(among, default=0))
    means = [(float(row["return_mean"]), int(row["frames"])) for row in rows]
    return max((pair for pair in means if pair[1] in among), default=(0.0, None))[1]


def reached_return(run_path: Path, frames: int, wanted: float | None) -> bool:
    """Whether the evaluation at a frame of a run reached a mean return.

    Args:
        run_path: the run directory.
        frames: of the run, at the evaluation.
        wanted: the mean return; ``None`` for one that is never reached.

    Raises:
        RunError: as :func:`evaluation_rows`, for rows up to this frame.

    >>> reached_return(Path("nowhere"), 0, -1000.0)
    False
    """
    return wanted is not None and any(
        int(row["frames"]) == frames and wanted <= float(row["return_mean"])
        for row in evaluation_rows(run_path, until=frames)
    )


def evaluation_rows(run_path: Path, *, until: float = inf) -> list[dict[str, str]]:
    r"""The complete rows of ``evaluations.csv``.

    Args:
        run_path: the run directory.
        until: frames of the last row that counts, behind which nothing is read.

    Raises:
        RunError: naming the line, if it cannot be read; or if the file cannot.

    >>> import tempfile
    >>> run = Path(tempfile.mkdtemp())
    >>> _ = (run / "evaluations.csv").write_text("frames,return_mean\n100,2.0\n200,1.0\n")
    >>> evaluation_rows(run, until=100)
    [{'frames': '100', 'return_mean': '2.0'}]
    """
    file = run_path / "evaluations.csv"
    if not file.exists():
        return []
    with os_errors_named(f"{file} cannot be read"):
        header, *lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
    columns, rows = header.split(","), list[dict[str, str]]()
    for number, line in enumerate(lines[:-1], 2):
        if rows and int(rows[-1]["frames"]) >= until:
            break
        # Only the last cell, a quoted list, has commas; it may be longer than `csv` reads.
        row = dict(zip(columns, line.split(",", len(columns) - 1), strict=False))
        try:
            int(row["frames"]), float(row["return_mean"])
        except (KeyError, ValueError) as error:
            raise RunError(f"{file}, line {number}: {line[:40]!r:.60} is no evaluation") from error
        rows.append(row)
    return [row for row in rows if int(row["frames"]) <= until]
