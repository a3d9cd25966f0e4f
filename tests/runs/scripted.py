"""The scripted recipe in a folder of its own, and its processes."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.processes import Process

ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
TIMEOUT = 300


def copy_recipe(folder: Path) -> Path:
    return Path(shutil.copy(Path(__file__).with_name("scripted_recipe.py"), folder / "recipe.py"))


def start(script: Path, folder: Path, *argv: str) -> Process:
    return Process(script, *argv, cwd=folder, env=ENVIRONMENT | {"TMPDIR": str(folder)})


def run(script: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end, in its folder."""
    return start(script, script.parent, *argv).finish()


def wait_for(condition: Callable[[], object], process: Process | None = None) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.05)
