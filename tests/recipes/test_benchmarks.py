"""The benchmarks as scripts: small sizes, what they print, what they write."""

from __future__ import annotations

import importlib
import os
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import rlkit_sac
from tests import processes
from tests.recipes.loading import RECIPES

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(rlkit_sac.__file__).parents[1])}
SMALL = "--num_cells [8] --batch_size 4 --num_qvalue_nets 3 --rounds 3 --updates 2 --warm_up 1"


def run(name: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    script = RECIPES / "benchmarks" / f"{name}.py"
    return processes.run(script, *arguments, cwd=cwd, env=ENVIRONMENT)


@pytest.fixture
def load(monkeypatch):
    """Imports a module of a folder of the benchmarks, as its scripts do."""

    def load(name: str, folder: str = ""):
        monkeypatch.syspath_prepend(RECIPES / "benchmarks" / folder)
        return importlib.import_module(name)

    return load


def table(printed: str, header: str) -> list[list[str]]:
    """The rows of a printed table, up to the load averages below it."""
    lines = printed.splitlines()
    first = next(index for index, line in enumerate(lines) if line.split()[0] == header)
    rows = lines[first + 1 :]
    last = next(index for index, line in enumerate(rows) if line.startswith("load averages"))
    return [row.split() for row in rows[:last]]


@pytest.mark.slow
def test_workers_are_timed_and_one_is_killed(tmp_path: Path) -> None:
    small = "--milliseconds 1 --workers [0,2] --frames_per_batch 8 --batches 2 --rounds 2"
    done = run("workers", *small.split(), "--output", "times.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list(pd.read_csv(tmp_path / "times.csv")["workers"]) == [0, 2, 0, 2]
    assert [row[0] for row in table(done.stdout, "workers")] == ["0", "2"]
    assert "a worker was killed: the learner waited" in done.stdout


def test_light_path_writes_each_round_and_prints_the_ratios(tmp_path: Path) -> None:
    arguments = "--tasks [Pendulum-v1] --torchrl true --frames_per_batch [1,5] --num_cells [8]"
    arguments += " --rounds 3 --frames 10 --warm_up 1 --products 1 --output times.csv"
    done = run("light_path", *arguments.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rounds = pd.read_csv(tmp_path / "times.csv")
    times = ["plain_us", "light_us", "torchrl_us"]
    settings = ["task", "frames_per_batch", "caches"]
    assert list(rounds.columns) == [*settings, "round", *times]
    assert (rounds[times] > 0).all(axis=None)
    found = list(rounds.groupby(settings, sort=False).size().items())
    pairs = [(frames, caches) for frames in (1, 5) for caches in ("hot", "cold")]
    assert found == [(("Pendulum-v1", *pair), 3) for pair in pairs]
    rows = table(done.stdout, "task")
    for row, (setting, group) in zip(rows, rounds.groupby(settings, sort=False), strict=True):
        assert tuple(row[:3]) == tuple(map(str, setting))
        assert [float(cell) for cell in row[3:6]] == pytest.approx(
            list(group[times].median()), abs=6e-3
        )
        wanted = (group["light_us"] / group["plain_us"]).median()
        assert float(row[6]) == pytest.approx(wanted, abs=6e-3)


@pytest.mark.slow
def test_update_writes_each_round_and_prints_medians_and_ratios(tmp_path: Path) -> None:
    arguments = [*SMALL.split(), "--losses", "[continuous, torchrl]", "--output", "times.csv"]
    arguments += ["--bfloat16", "true"]
    done = run("update", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rounds = pd.read_csv(tmp_path / "times.csv")
    losses, kinds = ("continuous", "torchrl"), ("eager", "compiled", "products", "bfloat16")
    columns = [f"{kind}_ms" for kind in kinds]
    assert list(rounds.columns) == ["loss", "round", *columns]
    assert (rounds[columns] > 0).all(axis=None)
    assert list(rounds["loss"]) == [loss for loss in losses for _ in range(3)]
    assert list(rounds["round"]) == [0, 1, 2] * 2
    rows = table(done.stdout, "loss")
    assert [row[0] for row in rows] == list(losses)
    for loss, *found, speedup, _, _, ratio, low, high, rounded, _, _ in rows:
        own = rounds[rounds["loss"] == loss]
        times = {kind: own[f"{kind}_ms"] for kind in kinds}
        medians = [times[kind].median() for kind in kinds]
        assert [float(each) for each in found] == pytest.approx(medians, abs=6e-3)
        wanted = (times["eager"] / times["compiled"]).median()
        assert float(speedup) == pytest.approx(wanted, abs=6e-3)
        wanted = (times["compiled"] / times["products"]).median()
        assert float(ratio) == pytest.approx(wanted, abs=6e-3)
        wanted = (times["compiled"] / times["bfloat16"]).median()
        assert float(rounded) == pytest.approx(wanted, abs=6e-3)
        assert float(low.strip("[,")) <= float(ratio) <= float(high.strip("]"))


@pytest.mark.slow
def test_speed_runs_systems_in_turns(tmp_path: Path) -> None:
    arguments = "--task Pendulum-v1 --rounds 2 --warmup 1005 --frames 10 --output speed.csv"
    systems = ["--systems", "[rlkit_sac, sbx, torchrl]", "--venv.sbx", "nowhere"]
    done = run("speed", *arguments.split(), *systems, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == (
        f"sbx is left out: there is no {tmp_path}/nowhere/bin/python"
    )
    runs = pd.read_csv(tmp_path / "speed.csv")
    assert list(runs["system"]) == ["rlkit_sac", "torchrl"] * 2
    assert list(runs["round"]) == [0, 0, 1, 1]
    assert (runs["frames"] == 10).all()
    assert (runs["seconds"] > 0).all()
    assert np.allclose(runs["frames_per_second"], runs["frames"] / runs["seconds"])
    assert runs["versions"].str.contains(f"torch {torch.__version__}", regex=False).all()
    assert runs[["load_before", "load_after"]].notna().all(axis=None)
    (first, second) = table(done.stdout, "system")
    assert (first[0], second[0]) == ("rlkit_sac", "torchrl")
    rates = runs.pivot(index="round", columns="system", values="frames_per_second")
    wanted = (rates["rlkit_sac"] / rates["torchrl"]).median()
    assert float(second[6]) == pytest.approx(wanted, abs=6e-3)
    assert {path.name for path in tmp_path.iterdir()} == {"speed.csv"}
