"""The table ``evaluations.csv`` of a run as it is read: its rows, and the best of them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pandas as pd

from rlkit_sac.analysis.files import read_rows


def read_evaluations(run_path: Path) -> pd.DataFrame:
    r"""The complete rows of ``evaluations.csv``, none without this file.

    Args:
        run_path: the run directory.

    Raises:
        RunError: as :func:`~rlkit_sac.analysis.files.read_rows`.

    >>> import tempfile
    >>> run = Path(tempfile.mkdtemp())
    >>> _ = (run / "evaluations.csv").write_text("frames,return_mean\n100,2.0\n200,1")
    >>> read_evaluations(run)["frames"].tolist()
    [100]
    """
    return read_rows(run_path / "evaluations.csv", ("frames", "return_mean"))


def best_frames(run_path: Path, *, among: Collection[int]) -> int | None:
    r"""Frames of the best evaluation, by ``return_mean``; the last of equal ones.

    Args:
        run_path: the run directory, with ``evaluations.csv``.
        among: frames to choose from.

    Returns:
        ``None`` where none of them was evaluated.

    Raises:
        RunError: as :func:`read_evaluations`.

    >>> import tempfile
    >>> run = Path(tempfile.mkdtemp())
    >>> best_frames(run, among=[100])
    >>> _ = (run / "evaluations.csv").write_text("frames,return_mean\n100,2.0\n200,1.0\n")
    >>> best_frames(run, among=[100, 200])
    100
    """
    rows = read_evaluations(run_path)
    rows = rows[rows["frames"].isin(list(among))].sort_values(["return_mean", "frames"])
    return None if rows.empty else int(rows["frames"].iloc[-1])
