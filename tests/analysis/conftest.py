import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

RunMaker = Callable[..., Path]
TableMaker = Callable[..., pd.DataFrame]


@pytest.fixture
def make_run(tmp_path: Path) -> RunMaker:
    """Write a run directory: its description, its configuration, and the tables given as text."""

    def make(
        name: str,
        *,
        recipe="sac",
        task="Pendulum-v1",
        seed=0,
        status="finished",
        config="",
        configuration="default",
        **tables,
    ):
        run_dir = tmp_path / "runs" / recipe / task / name
        run_dir.mkdir(parents=True)
        description = {"recipe": recipe, "task": task, "seed": seed, "status": status}
        description["configuration"] = configuration
        (run_dir / "run.json").write_text(json.dumps(description))
        if config:
            (run_dir / "config.yaml").write_text(config)
        for table, text in tables.items():
            (run_dir / f"{table}.csv").write_text(text)
        return run_dir

    return make


@pytest.fixture(scope="session")
def table() -> TableMaker:
    """A table as of `load_runs`, with one run per list of (frames, return) pairs."""

    def make(*runs, recipe="sac", task="Pendulum-v1", **columns):
        rows = [
            {"run": f"{recipe}/{task}/{k}", "frames": frames, "return_mean": value}
            for k, run in enumerate(runs)
            for frames, value in run
        ]
        return pd.DataFrame(rows).assign(recipe=recipe, task=task, **columns)

    return make
