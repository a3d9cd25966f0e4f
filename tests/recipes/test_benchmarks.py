"""The benchmarks as scripts: small sizes, what they print, what they write."""

from __future__ import annotations

import importlib
import os
import subprocess
from collections import Counter
from pathlib import Path

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
import torch
from torch.profiler import profile
from torch.utils._python_dispatch import TorchDispatchMode

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


@pytest.mark.slow
def test_acer_update_writes_each_round_and_prints_the_medians(tmp_path: Path) -> None:
    small = "--segments [2,3] --t_max 4 --num_cells [8] --rounds 3 --updates 2 --warm_up 2"
    done = run("acer_update", *small.split(), "--output", "times.csv", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    rounds = pd.read_csv(tmp_path / "times.csv")
    times = ["loss_ms", "update_ms", "compiled_ms"]
    assert list(rounds.columns) == ["actions", "segments", "round", *times]
    assert (rounds[times] > 0).all(axis=None)
    cases = rounds.groupby(["actions", "segments"], sort=False)
    assert list(cases.groups) == [
        (kind, count) for kind in ("discrete", "continuous") for count in (2, 3)
    ]
    for row, (_, group) in zip(table(done.stdout, "actions"), cases, strict=True):
        wanted = [*group[times].median(), (group["update_ms"] / group["compiled_ms"]).median()]
        assert [float(number) for number in row[2:6]] == pytest.approx(wanted, abs=6e-3)


@pytest.mark.slow
def test_torchrl_losses_writes_each_round_and_prints_the_ratios(tmp_path: Path) -> None:
    small = "--losses [DQNLoss] --num_cells [8] --batch_size 4 --rounds 3 --updates 2 --warm_up 2"
    done = run("torchrl_losses", *small.split(), "--output", "times.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rounds = pd.read_csv(tmp_path / "times.csv")
    assert list(rounds.columns) == ["loss", "round", "eager_ms", "compiled_ms"]
    assert list(rounds["round"]) == [0, 1, 2]
    (row,) = table(done.stdout, "loss")
    assert row[0] == "DQNLoss"
    wanted = (rounds["eager_ms"] / rounds["compiled_ms"]).median()
    assert float(row[3]) == pytest.approx(wanted, abs=6e-3)


def test_a_benchmark_refuses_sizes_that_cannot_be_measured(tmp_path: Path) -> None:
    done = run("update", "--rounds", "0", "--batch_sise", "4", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: --rounds: must be greater than or equal to 1, got 0",
        "error: --batch_sise: unknown option; did you mean --batch_size?",
    ]
    assert list(tmp_path.iterdir()) == []


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


def test_what_comes_before_a_call_is_not_timed(load, monkeypatch) -> None:
    timing, now = load("timing"), [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])

    def passing(seconds: float):
        def wait() -> None:
            now[0] += seconds

        return wait

    contestants = {"a": passing(2.0), "b": passing(3.0)}
    for before in (None, passing(100.0)):
        rounds = timing.take_turns(contestants, rounds=2, calls=4, before=before)
        assert rounds[["a", "b"]].to_numpy().tolist() == [[2000.0, 3000.0]] * 2


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


@pytest.mark.parametrize("name", ["continuous", "discrete", "hybrid", "torchrl"])
def test_the_products_are_those_that_the_update_makes(load, name) -> None:
    benchmark = load("update")
    config = benchmark.UpdateBenchmarkConfig(num_cells=[16, 8], batch_size=4)
    batch = benchmark.random_batch(name, config.batch_size)
    update = benchmark.make_update(
        benchmark.make_loss(name, config), benchmark.UpdateConfig(matmul_precision="exact")
    )
    products = benchmark.make_products(benchmark.record_gradients(update, batch), "exact")
    assert made_in(products) == made_in(lambda: update(batch))


def test_the_products_of_rounded_factors_are_made_of_such(load) -> None:
    benchmark = load("update")
    config = benchmark.UpdateBenchmarkConfig(num_cells=[64, 64], batch_size=64)
    config.matmul_precision = "bfloat16"
    products = benchmark.make_contestants("continuous", config)["products_ms"]
    made = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            made.append(args)
            return function(*args, **kwargs)

    with Watch():
        products()
    assert {left.dtype for left, _ in made} == {torch.float32, torch.bfloat16}
    for left, right in made:
        is_large = min(*left.shape[-2:], right.shape[-1]) >= 64
        assert left.dtype == right.dtype == (torch.bfloat16 if is_large else torch.float32)


def made_in(function) -> Counter:
    """The matrix products that a function makes, each as the shapes of its operands."""
    with profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        function()
    names = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")
    events = [event for event in profiler.events() if event.name in names]
    # vmap shows what it was asked for, and inside it what it makes of that.
    outer = set()
    for event in events:
        parent = event.cpu_parent
        while parent is not None:
            outer.add(parent.id)
            parent = parent.cpu_parent
    made: Counter = Counter()
    for event in events:
        if event.id not in outer:
            first = 1 if "add" in event.name else 0  # a bias comes before the factors
            made[tuple(map(tuple, event.input_shapes[first : first + 2]))] += 1
    return made


def test_an_interval_holds_its_median_and_is_empty_for_one_round(load) -> None:
    median = load("timing").median
    value, low, high = median([1.0, 2.0, 3.0, 4.0, 100.0])
    assert value == 3.0
    assert 1.0 <= low < value < high <= 100.0
    assert median([2.0, 2.0]) == (2.0, 2.0, 2.0)
    single = median([5.0])
    assert single.value == 5.0
    assert np.isnan([single.low, single.high]).all()


def test_turns_alternate_their_order(load) -> None:
    called: list[str] = []
    contestants = {name: lambda name=name: called.append(name) for name in "ab"}
    rounds = load("timing").take_turns(contestants, rounds=3, calls=2)
    assert "".join(called) == "aabbbbaaaabb"
    assert list(rounds.columns) == ["round", "a", "b"]
    assert list(rounds["round"]) == [0, 1, 2]


def test_the_frame_clock_times_the_frames_after_the_warmup(load, monkeypatch) -> None:
    clock = load("frame_clock", "peers")
    monkeypatch.setattr(clock, "measured", [])
    steps = 0
    monkeypatch.setattr(clock.time, "perf_counter", lambda: float(steps))
    monkeypatch.setattr(clock.time, "process_time", lambda: 2.0 * steps)
    envs = [clock.FrameClock(gym.make("Pendulum-v1"), warmup=3, frames=5) for _ in range(2)]
    for env in envs:
        env.reset()
    for steps in range(1, 20):
        assert clock.measured == ([] if steps <= 8 else [(5.0, 10.0)])
        envs[steps % 2].step(envs[0].action_space.sample())
    assert clock.measured == [(5.0, 10.0)]


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


@pytest.mark.slow
def test_speed_times_whole_commands(tmp_path: Path) -> None:
    arguments = "--systems [torchrl] --task Pendulum-v1 --rounds 1 --frames 20 --wall true"
    done = run("speed", *arguments.split(), "--output", "a/wall.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = pd.read_csv(tmp_path / "a" / "wall.csv").itertuples()
    assert (row.wall, row.frames) == (True, 20)
    assert row.seconds > 0


@pytest.mark.slow
def test_speed_times_actor_critic_with_experience_replay(tmp_path: Path) -> None:
    arguments = "--systems [acer] --task CartPole-v1 --rounds 1 --warmup 1600 --frames 320"
    done = run("speed", *arguments.split(), "--output", "acer.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = pd.read_csv(tmp_path / "acer.csv").itertuples()
    assert row.frames_per_cpu_second > 0
    assert float(table(done.stdout, "system")[0][3]) == pytest.approx(
        row.frames_per_cpu_second, abs=0.06
    )


def test_speed_says_why_a_system_failed(tmp_path: Path) -> None:
    arguments = "--systems [torchrl] --task Nowhere-v0 --rounds 1 --output speed.csv"
    done = run("speed", *arguments.split(), cwd=tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: torchrl failed in round 0: ")
    assert "Nowhere" in line


def test_speed_refuses_what_it_cannot_measure(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("kept")
    arguments = "--num_threads 9999 --venv.nobody here --output old.csv --systems [acer,sb3]"
    done = run("speed", *arguments.split(), cwd=tmp_path)
    assert done.returncode == 2
    options = [line.split(": ")[1] for line in done.stderr.splitlines()]
    assert sorted(options) == ["--num_threads", "--output", "--systems", "--venv.nobody"]
    assert (tmp_path / "old.csv").read_text() == "kept"
