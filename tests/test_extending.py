"""docs/extending.md, followed: its files are written, its commands and blocks run in order."""

from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks
from tests.docs.session import Session

BLOCKS = blocks(ROOT / "docs" / "extending.md")


@pytest.mark.slow
def test_the_page_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(tmp_path, monkeypatch)
    session.follow_page(BLOCKS)
    (metrics,) = tmp_path.glob("runs/my_sac/*/*/metrics.csv")
    assert metrics.read_text().splitlines()[-1].split(",")[0] == "500"  # it was resumed
    (config,) = tmp_path.glob("runs/my_sac/*/*/config.yaml")
    assert "behavior_coef: 0.05" in config.read_text()


def test_every_kind_of_change_is_shown() -> None:
    files = [block.file for block in BLOCKS if block.file]
    assert files == ["my_losses.py", "my_factors.py", "my_tasks.py"]
    assert ["+++ my_sac.py" in block.code for block in BLOCKS].count(True) == 1
