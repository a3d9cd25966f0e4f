"""The benchmarks as scripts: small sizes, what they print, what they write."""

import importlib
import os
import subprocess
from pathlib import Path

import pandas as pd
import pytest

import rlkit_sac
from tests import processes
from tests.recipes.loading import RECIPES
from tests.recipes.running import SAC

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(rlkit_sac.__file__).parents[1])}


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


def test_every_variant_of_the_fast_configuration_is_one_of_the_recipe(load) -> None:
    fast = load("fast")
    for variant in ("published", *fast.VARIANTS, "delay 1+tau .005"):
        options = {"env.id": "Hopper-v5", **fast.options(variant)}.items()
        words = [word for name, value in options for word in (f"--{name}", str(value))]
        config = SAC.config(*words)
        assert (config.network.critic_atoms is None) == (variant in VALUES)
        assert config.loss.target_entropy == ("neg_dim" if variant in NEG_DIM else "half_neg_dim")


NEG_DIM = ("published", "target -A")
VALUES = ("published", "values", "raw rewards", "divisor std")


@pytest.mark.slow
def test_runs_that_differ_in_one_option_are_compared(tmp_path: Path) -> None:
    arguments = "--tasks [Hopper-v5] --variants [published,delay+3] --frames 40 --interval 20"
    words = [word.replace("delay+3", "delay 1") for word in arguments.split()]
    done = run("fast", *words, "--output", "fast.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = pd.read_csv(tmp_path / "fast.csv")
    assert list(found["variant"]) == ["published"] * 2 + ["delay 1"] * 2
    assert list(found["frames"]) == [20, 40] * 2
    assert "Hopper-v5, delay 1, seed 0: " in done.stdout


@pytest.mark.slow
def test_updates_from_images_are_timed_with_an_encoder_each_and_one_of_all(tmp_path: Path) -> None:
    small = "--sides [10,12] --channels 1 --batch_size 4 --rounds 2 --output times.csv"
    done = run("image_update", *small.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rounds = pd.read_csv(tmp_path / "times.csv")
    assert list(rounds.columns) == ["side", "round", "shift_ms", "apart_ms", "shared_ms"]
    assert [row[0] for row in table(done.stdout, "side")] == ["10", "12"]


@pytest.mark.slow
def test_every_part_for_a_gpu_runs(tmp_path: Path) -> None:
    small = "--device cpu --frames 1200 --num_envs 16 --rounds 2 --seconds 3600"
    done = run("gpu", *small.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    figures = pd.read_csv(tmp_path / "gpu.csv").set_index(["part", "figure"])["value"]
    assert figures.notna().all(), figures
    assert "passed" in figures["tests", "result"]
    for loss in ("continuous", "discrete", "hybrid"):
        assert float(figures[f"update {loss}", "compiled ms"]) > 0
    for part in ("sac", "kl_prior_sac", "value_sac", "discrete_sac", "hybrid_sac", "acer"):
        assert float(figures[part, "frames per second"]) > 0
    for system in ("rlkit_sac", "torchrl"):
        assert float(figures["HalfCheetah-v5", f"{system} frames per second"]) > 0
    assert float(figures["PendulumEnv x 16", "frames per second"]) > 0
