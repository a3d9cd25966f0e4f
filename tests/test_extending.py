"""docs/extending.md, followed: its files are written, its commands and blocks run in order."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests import processes

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
BLOCK = re.compile(r"^```(python|bash|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (my_\w+\.py)\n")


def blocks() -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]


def run(folder: Path) -> str:
    """What session.py in that folder prints."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PAGE.parents[1]), str(folder)])}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = processes.run(folder / "session.py", cwd=folder, env=environment)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The folder in which the page was followed, and what it shows that its blocks print."""
    folder = tmp_path_factory.mktemp("extending")
    session, shown = "", ""
    for language, code in blocks():
        if language == "text":
            shown += code
        elif language == "bash":
            session += f"import subprocess\nsubprocess.run({code!r}, shell=True, check=True,\n"
            session += "    stdout=subprocess.DEVNULL)\n"
        elif file := FILE.match(code):
            (folder / file[1]).write_text(code, encoding="utf-8")
        else:
            session += code
    (folder / "session.py").write_text(session, encoding="utf-8")
    return folder, [run(folder), shown]


def test_the_page_prints_what_it_shows(followed) -> None:
    _, (printed, shown) = followed
    assert printed == shown


def test_every_kind_of_change_is_shown() -> None:
    files = [file[1] for _, code in blocks() if (file := FILE.match(code))]
    assert files == ["my_losses.py", "my_factors.py", "my_tasks.py", "my_sac.py"]


def test_the_resumed_recipe_went_on(followed) -> None:
    folder, _ = followed
    (metrics,) = folder.glob("runs/my_sac/*/*/metrics.csv")
    assert metrics.read_text().splitlines()[-1].split(",")[0] == "500"
    (config,) = folder.glob("runs/my_sac/*/*/config.yaml")
    assert "behavior_coef: 0.05" in config.read_text()
