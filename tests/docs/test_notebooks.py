"""The notebooks show what their code gave, and their code runs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, Block
from tests.docs.session import Session

NOTEBOOKS = sorted(ROOT.glob("docs/notebooks/*.ipynb"))
# As long as it takes to make some updates.
SHORT = {
    "--collector.total_frames 5000": "--collector.total_frames 1300",
    "--evaluation.interval 1000": "--evaluation.interval 500",
    "--compile true": "--compile false",
    "episodes=200": "episodes=2",
}
_MACHINE = re.compile(r"/(?:home|root|tmp|usr|opt|work|Users)/|[A-Z]:\\\\")


def code_cells(notebook: Path) -> list[dict[str, Any]]:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert content["nbformat"] == 4
    return [cell for cell in content["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_all_cells_were_executed_in_order_without_errors(notebook: Path) -> None:
    cells = code_cells(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert "error" not in [output["output_type"] for output in outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    for output in outputs:
        shown = output.get("text", []) + output.get("data", {}).get("text/plain", [])
        assert not _MACHINE.search("".join(shown))
    assert notebook.stat().st_size < 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_code_runs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    session = Session(tmp_path, monkeypatch)
    for number, cell in enumerate(code_cells(notebook), start=1):
        code = "".join(cell["source"])
        for long, short in SHORT.items():
            code = code.replace(long, short)
        code = code.removeprefix("%matplotlib inline\n")
        language = "bash" if code.startswith("%%bash\n") else "python"
        code = code.removeprefix("%%bash\n")
        session.follow(Block(notebook, number, language, code, file=None))
