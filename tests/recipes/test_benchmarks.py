"""The benchmarks as scripts: small sizes, what they print, what they write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rlkit_sac
from tests.recipes.loading import RECIPES

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(rlkit_sac.__file__).parents[1])}
SMALL = "--num_cells [8] --batch_size 4 --num_qvalue_nets 3 --rounds 3 --updates 2 --warm_up 1"


def run(name: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RECIPES / "benchmarks" / f"{name}.py"), *arguments]
    return subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True)


def test_hybrid_update_writes_each_round_and_prints_the_medians(tmp_path: Path) -> None:
    done = run("hybrid_update", *SMALL.split(), "--output", "times.csv", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    rounds = pd.read_csv(tmp_path / "times.csv")
    assert list(rounds.columns) == ["task", "round", "continuous_ms", "hybrid_ms", "ratio"]
    assert list(rounds["task"]) == ["HalfCheetah"] * 3 + ["Platform"] * 3
    assert list(rounds["round"]) == [0, 1, 2] * 2
    assert (rounds[["continuous_ms", "hybrid_ms"]] > 0).all(axis=None)
    assert np.allclose(rounds["ratio"], rounds["hybrid_ms"] / rounds["continuous_ms"])
    lines = done.stdout.splitlines()
    assert lines[0].endswith("threads: 1")
    assert [line.split(":")[0] for line in (lines[1], lines[-1])] == [
        "load averages at the start",
        "load averages at the end",
    ]
    assert lines[2].split()[3:] == ["ratio", "ratio_q25", "ratio_q75"]
    for line in lines[3:5]:
        task, *numbers = line.split()
        group = rounds[rounds["task"] == task]
        wanted = group[["continuous_ms", "hybrid_ms", "ratio"]].median()
        assert [float(x) for x in numbers[:3]] == pytest.approx(list(wanted), abs=1e-3)
        assert float(numbers[3]) <= float(numbers[2]) <= float(numbers[4])


def test_a_benchmark_refuses_sizes_that_cannot_be_measured(tmp_path: Path) -> None:
    done = run("hybrid_update", "--rounds", "0", "--batch_sise", "4", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: unknown option --batch_sise; did you mean --batch_size?",
        "error: --rounds: must be >= 1, got 0",
    ]
    assert list(tmp_path.iterdir()) == []
