from pathlib import Path

import pytest

from rlkit_sac.runs.tables.report import final_summary


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("400,-150.0,0.0,1", "-150.00 (1 episode at frame 400)"),
        ("400,-150.0,2.5,3", "-150.00 ± 2.50 (3 episodes at frame 400)"),
    ],
)
def test_a_deviation_needs_several_episodes(tmp_path: Path, row: str, text: str) -> None:
    header = "frames,return_mean,return_std,episodes"
    (tmp_path / "evaluations.csv").write_text(f"{header}\n{row}\n")
    lines = final_summary(tmp_path, frames=400, updates=1, seconds=1.0).splitlines()
    assert lines[0] == f"last evaluation  {text}"
