"""The command `report`: a page beside the run or where it is told, without PyTorch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rlkit_sac.cli import main

WITHOUT_PYTORCH = """
import sys
from rlkit_sac.cli import main
codes = [main(["report", "runs"]), main(["report", "damaged"])]
assert "torch" not in sys.modules
print(codes)
"""


@pytest.fixture
def runs(folder: Path) -> Path:
    for seed in range(2):
        run = folder / "runs" / f"seed{seed}"
        run.mkdir(parents=True)
        info = {"recipe": "sac", "task": "Ant-v5", "seed": seed, "status": "finished"}
        (run / "run.json").write_text(json.dumps(info))
        (run / "config.yaml").write_text(f"update: {{lr_actor: {10.0**-seed}}}")
        (run / "evaluations.csv").write_text("frames,return_mean\n100,5.0\n200,7.0\n")
    return folder / "runs"


def test_the_page_is_written_and_its_path_printed(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "runs", "--by", "update.lr_actor,seed"]) == 0
    assert capsys.readouterr() == ("report.html\n", "")
    assert "lr_actor = 0.1, seed = 1" in (runs.parent / "report.html").read_text()


def test_pytorch_is_not_imported_not_even_for_an_error(runs: Path) -> None:
    damaged = runs.parent / "damaged"
    damaged.mkdir()
    (damaged / "run.json").write_text("{")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYTORCH], capture_output=True, text=True, cwd=runs.parent
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[0, 1]"
    assert done.stderr.startswith("error: ")
    assert "run.json cannot be read" in done.stderr
