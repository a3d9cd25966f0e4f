import json
from collections.abc import Callable
from pathlib import Path

import pytest

RunMaker = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path) -> RunMaker:
    """Write a run directory: its description, and the tables given as text."""

    def make(name: str, *, recipe="sac", task="Pendulum-v1", seed=0, status="finished", **tables):
        run_dir = tmp_path / "runs" / recipe / task / name
        run_dir.mkdir(parents=True)
        description = {"recipe": recipe, "task": task, "seed": seed, "status": status, "frames": 10}
        (run_dir / "run.json").write_text(json.dumps(description))
        for table, text in tables.items():
            (run_dir / f"{table}.csv").write_text(text)
        return run_dir

    return make
