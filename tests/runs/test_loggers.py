"""TensorBoard and W&B show what the CSV files hold, and leave the training as it is."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from rlkit_sac.config import LoggingConfig, RunConfig
from rlkit_sac.runs.loggers import RunLoggers


def open_loggers(path: Path, **options) -> RunLoggers:
    config = RunConfig(logging=LoggingConfig(tensorboard=True))
    return RunLoggers(config, SimpleNamespace(path=path, info={}), **options)


def tensorboard_scalars(path: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(path / "tensorboard"))
    events.Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


ROWS = [
    ("metrics", {"frames": 500, "updates": 0, "alpha": 0.5, "q0_mean": None}),
    (
        "episodes",
        {"frames": 600, "return": -2.5, "terminated": True, "env": 1},
    ),
    ("metrics", {"frames": 1000, "updates": 9, "alpha": 0.25, "q0_mean": 4.0}),
    ("evaluations", {"frames": 1000, "return_mean": -1.5, "returns": [-1.0, -2.0]}),
]
EXPECTED = {
    "metrics/updates": [(500, 0.0), (1000, 9.0)],
    "metrics/alpha": [(500, 0.5), (1000, 0.25)],
    "metrics/q0_mean": [(1000, 4.0)],
    "episodes/return": [(600, -2.5)],
    "episodes/terminated": [(600, 1.0)],
    "episodes/env": [(600, 1.0)],
    "evaluations/return_mean": [(1000, -1.5)],
}


def test_tensorboard_has_the_numbers_under_table_and_column(tmp_path):
    pytest.importorskip("tensorboard")
    loggers = open_loggers(tmp_path)
    for table, row in ROWS:
        loggers.write(table, row)
    assert tensorboard_scalars(tmp_path) == EXPECTED, "a killed run has all it wrote"
    loggers.close()
    assert tensorboard_scalars(tmp_path) == EXPECTED
    assert [file.name for file in tmp_path.iterdir()] == ["tensorboard"]


def test_a_resumed_run_shows_no_row_twice_in_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    first = open_loggers(tmp_path)
    for frames in (100, 200, 300, 400):
        first.write("metrics", {"frames": frames, "alpha": 0.5})
    first.close()
    second = open_loggers(tmp_path, resumed_at=200)
    for frames in (250, 350):
        second.write("metrics", {"frames": frames, "alpha": 0.25})
    second.close()
    expected = [(100, 0.5), (200, 0.5), (250, 0.25), (350, 0.25)]
    assert tensorboard_scalars(tmp_path) == {"metrics/alpha": expected}
