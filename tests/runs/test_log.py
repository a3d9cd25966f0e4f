import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlkit_sac.errors import ConfigError
from rlkit_sac.runs import EvaluationResult, RunDirectory
from rlkit_sac.runs.files import join_state, split_state
from rlkit_sac.runs.log import MetricsAverage, TrainingLog, report
from rlkit_sac.runs.loggers import ProgressBar

NAMES = ("loss_actor", "alpha", "q0_min", "grad_norm_actor")


@dataclass
class Config:
    seed: int = 0


class Clock:
    """Wall time that moves when it is told to."""

    now = 1000.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("rlkit_sac.runs.log.time", SimpleNamespace(perf_counter=clock.perf_counter))
    return clock


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDirectory]:
    with RunDirectory.create(Config(), recipe="sac", task="Toy", seed=0, root=tmp_path) as run:
        yield run


class Shown(ProgressBar):
    """A hidden bar that remembers its numbers."""

    def update(self, frames, shown=None) -> None:
        super().update(frames, shown)
        self.last = frames, dict(shown)


@pytest.fixture
def bar() -> Iterator[Shown]:
    with Shown(1000, enabled=False) as bar:
        yield bar


def make_log(run: RunDirectory, bar: ProgressBar) -> TrainingLog:
    return TrainingLog(run, bar, NAMES, started=1000.0)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def frames(number: int, ends: tuple[int, ...] = ()) -> TensorDict:
    done = torch.zeros(number, 1, dtype=torch.bool)
    done[list(ends)] = True
    after = TensorDict(
        done=done,
        terminated=done,
        episode_reward=torch.arange(float(number)).unsqueeze(-1),
        step_count=torch.arange(number).unsqueeze(-1) + 1,
        batch_size=[number],
    )
    return TensorDict(next=after, batch_size=[number])


def scalars(**values: float) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}


def test_a_row_averages_the_updates_since_the_last(run, bar, clock) -> None:
    log = make_log(run, bar)
    log.collected(frames(20))
    log.updated(scalars(loss_actor=1.0, alpha=0.5, q0_min=-3.0, grad_norm_actor=2.0))
    log.updated(scalars(loss_actor=2.0, alpha=0.25, q0_min=-1.0, grad_norm_actor=4.0))
    clock.now += 4.0
    log.write_metrics()
    log.collected(frames(30))
    log.updated(scalars(loss_actor=7.0, alpha=0.125, q0_min=5.0, grad_norm_actor=1.0))
    clock.now += 2.0
    log.write_metrics()
    columns = ["frames", "updates", "seconds", "frames_per_second", *NAMES]
    first, second = rows(run.path / "metrics.csv")
    assert list(first) == columns
    assert [float(first[c]) for c in columns] == [20, 2, 4, 5, 1.5, 0.375, -3, 3]
    assert [float(second[c]) for c in columns] == [50, 3, 6, 15, 7, 0.125, 5, 1]


def test_a_log_goes_on_in_the_middle_of_a_row(tmp_path, run, bar, clock) -> None:
    log = make_log(run, bar)
    log.collected(frames(10))
    log.updated(scalars(loss_actor=1.0, alpha=0.5, q0_min=-3.0))
    log.evaluations[10] = -150.0, 2.5, 3, None
    clock.now += 6.0
    state = join_state(*split_state(log.state_dict()))
    clock.now += 100.0  # between the two sessions
    again = make_log(run, bar)
    again.load_state_dict(state)
    assert (again.frames, again.updates, again.seconds) == (10, 1, 6.0)
    assert again.evaluations == {10: (-150.0, 2.5, 3, None)}
    assert again.reached(-150.0)
    assert not again.reached(-149.0)
    again.updated(scalars(loss_actor=4.0, alpha=0.5, q0_min=2.0))
    again.write_metrics()
    (row,) = rows(run.path / "metrics.csv")
    assert [row[name] for name in ("updates", "seconds", "loss_actor", "q0_min")] == [
        "2",
        "6.0",
        "2.5",
        "-3.0",
    ]


def test_metrics_of_ones_own_are_columns_and_numbers_of_the_bar(run, bar, clock) -> None:
    log = make_log(run, bar)
    log.collected(frames(5))
    log.write_metrics()
    log.log({"success": True, "gap_max": 1.0})
    log.log({"success": 0.0})
    state = join_state(*split_state(log.state_dict()))
    log = make_log(run, bar)
    log.load_state_dict(state)  # in the middle of a row
    log.log({"success": torch.tensor(1 / 3), "gap_max": -2.0})
    log.collected(frames(5))
    assert bar.last[1]["success"] == pytest.approx(1 / 3)
    log.write_metrics()
    log.collected(frames(5))
    log.write_metrics()
    first, second, third = rows(run.path / "metrics.csv")
    assert list(first)[-2:] == ["success", "gap_max"]
    assert (first["success"], third["gap_max"]) == ("", "")
    assert float(second["success"]) == pytest.approx(4 / 9)
    assert float(second["gap_max"]) == 1.0
    for taken in ("alpha", "frames"):
        with pytest.raises(ConfigError, match=f"a run has '{taken}' already"):
            log.log({taken: 1.0})


def test_episodes_are_written_as_they_end(run, bar, clock) -> None:
    log = make_log(run, bar)
    clock.now += 3.0
    log.collected(frames(5))
    log.collected(frames(8, ends=(1, 6)))
    assert log.frames == 13
    found = rows(run.path / "episodes.csv")
    assert list(found[0]) == ["frames", "env", "return", "length", "terminated", "seconds"]
    assert [list(row.values()) for row in found] == [
        ["7", "0", "1.0", "2", "true", "3.0"],
        ["12", "0", "6.0", "7", "true", "3.0"],
    ]


def test_evaluations(run, bar, clock) -> None:
    log = make_log(run, bar)
    log.collected(frames(10))
    clock.now += 8.0
    log.evaluated(EvaluationResult(np.array([1.0, 3.0]), np.array([10, 20])))
    assert bar.last[1]["evaluation"] == 2.0  # at once: it may be the last of the run
    (row,) = rows(run.path / "evaluations.csv")
    assert (row["frames"], row["episodes"], row["seconds"]) == ("10", "2", "8.0")
    assert (row["return_mean"], row["return_std"], row["length_mean"]) == ("2.0", "1.0", "15.0")
    assert json.loads(row["returns"]) == [1.0, 3.0]


def test_a_name_counts_where_it_was_reported() -> None:
    average = MetricsAverage()
    average.add({"loss": torch.tensor(1.0)})
    average.add({"loss": torch.tensor(3.0), "grad_norm_actor": torch.tensor(10.0)})
    found = average.compute()
    assert found == {"loss": 2.0, "grad_norm_actor": 10.0}
    assert list(found) == ["loss", "grad_norm_actor"]


@given(values=st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=20))
def test_mean_minimum_and_maximum(values: list[float]) -> None:
    average = MetricsAverage()
    for value in values:
        average.add(
            {name: torch.tensor(value).double() for name in ("q", "minimum", "q_min", "q_max")}
        )
    found = average.compute()
    assert found["q"] == pytest.approx(sum(values) / len(values), rel=1e-9, abs=1e-6)
    assert found["minimum"] == found["q"]
    assert found["q_min"] == min(values)
    assert found["q_max"] == max(values)


@pytest.mark.parametrize(
    ("evaluations", "text"),
    [
        ({}, "none"),
        ({400: (-150.0, 0.0, 1, None)}, "-150.00 (1 episode at frame 400)"),
        ({400: (-150.0, 2.5, 3, None)}, "-150.00 ± 2.50 (3 episodes at frame 400)"),
        ({9: (-2.0, 1.0, 4, 0.75)}, "-2.00 ± 1.00, success rate 0.75 (4 episodes at frame 9)"),
    ],
)
def test_a_deviation_needs_several_episodes(evaluations: Any, text: str) -> None:
    bar: Any = SimpleNamespace()
    log = TrainingLog(bar, bar, (), started=0.0)
    log.evaluations = evaluations
    lines = report(SimpleNamespace(path=Path("runs")), log).splitlines()
    assert lines[:2] == [f"last evaluation  {text}", f"best evaluation  {text}"]
