"""Reading the table of evaluations that a run wrote."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path

import numpy as np

from rlkit_sac.runs.directory import CSVLog, best_frames, read_evaluations
from rlkit_sac.runs.evaluation import EvaluationResult


def write(run_path: Path, means: dict[int, float], *, episodes: int = 2) -> None:
    with closing(CSVLog(run_path / "evaluations.csv")) as log:
        for frames, mean in means.items():
            result = EvaluationResult(np.full(episodes, mean), np.full(episodes, 200))
            log.write(result.row(frames, seconds=0.5))


def test_a_row_of_many_episodes_is_read(tmp_path):
    """Its last cell is longer than the 131,072 characters that Python's csv reads."""
    write(tmp_path, {100: math.pi, 200: 1.0}, episodes=10_000)
    assert best_frames(tmp_path, among=[100, 200]) == 100
    means = read_evaluations(tmp_path)["return_mean"].tolist()
    assert means == [np.full(10_000, math.pi).mean(), 1.0]
