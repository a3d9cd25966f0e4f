from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlkit_sac.runs.log import TrainingLog, final_summary


@pytest.mark.parametrize(
    ("evaluations", "text"),
    [
        ({}, "none"),
        ({400: (-150.0, 0.0, 1, None)}, "-150.00 (1 episode at frame 400)"),
        ({400: (-150.0, 2.5, 3, None)}, "-150.00 ± 2.50 (3 episodes at frame 400)"),
        ({9: (-2.0, 1.0, 4, 0.75)}, "-2.00 ± 1.00, success rate 0.75 (4 episodes at frame 9)"),
    ],
)
def test_a_deviation_needs_several_episodes(evaluations: Any, text: str) -> None:
    bar: Any = SimpleNamespace()
    log = TrainingLog(bar, bar, (), started=0.0)
    log.evaluations = evaluations
    lines = final_summary(Path("runs"), log).splitlines()
    assert lines[:2] == [f"last evaluation  {text}", f"best evaluation  {text}"]
