"""TensorBoard and W&B show what the CSV files hold, and leave the training as it is."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from rlkit_sac.config import LoggingConfig
from rlkit_sac.runs.tables.loggers import RunLoggers, make_loggers


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """W&B without network or account."""
    wandb = pytest.importorskip("wandb")
    wandb.teardown()  # it reads its environment once in a process
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    yield
    wandb.teardown()


def open_loggers(path: Path, *, tensorboard=False, wandb=False, **options) -> RunLoggers:
    config = LoggingConfig(tensorboard=tensorboard, wandb=wandb)
    return make_loggers(config, path, name="run", options={"seed": 3}, **options)


def tensorboard_scalars(path: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(path / "tensorboard"))
    events.Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def wandb_records(path: Path) -> list:
    """Every record of every offline file: LevelDB's log format after a header of 7 bytes."""
    import wandb
    from wandb.proto.wandb_internal_pb2 import Record

    wandb.teardown()  # its service writes the last records on its own time
    records = []
    for file in sorted(path.glob("wandb/offline-run-*/*.wandb")):
        content, position, data = file.read_bytes(), 7, b""
        while position + 7 <= len(content):
            _, length, kind = struct.unpack_from("<IHB", content, position)
            data += content[position + 7 : position + 7 + length]
            position += 7 + length
            if -position % 32768 < 7:  # no header fits into the rest of the block
                position += -position % 32768
            if kind in (1, 4):  # a whole record, or the last part of one
                records.append(Record.FromString(data))
                data = b""
    return records


def wandb_rows(path: Path) -> list[dict]:
    rows = [record.history.item for record in wandb_records(path) if record.HasField("history")]
    return [
        {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in row}
        for row in rows
    ]


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
    loggers = open_loggers(tmp_path, tensorboard=True)
    for table, row in ROWS:
        loggers.write(table, row)
    assert tensorboard_scalars(tmp_path) == EXPECTED, "a killed run has all it wrote"
    loggers.close()
    assert tensorboard_scalars(tmp_path) == EXPECTED
    assert [file.name for file in tmp_path.iterdir()] == ["tensorboard"]
    assert loggers.wandb_id is None


def test_a_resumed_run_shows_no_row_twice_in_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    first = open_loggers(tmp_path, tensorboard=True)
    for frames in (100, 200, 300, 400):
        first.write("metrics", {"frames": frames, "alpha": 0.5})
    first.close()
    second = open_loggers(tmp_path, tensorboard=True, resumed_at=200)
    for frames in (250, 350):
        second.write("metrics", {"frames": frames, "alpha": 0.25})
    second.close()
    expected = [(100, 0.5), (200, 0.5), (250, 0.25), (350, 0.25)]
    assert tensorboard_scalars(tmp_path) == {"metrics/alpha": expected}


def test_wandb_has_the_numbers_under_table_and_column(tmp_path, offline):
    loggers = open_loggers(tmp_path, wandb=True)
    for table, row in ROWS:
        loggers.write(table, row)
    loggers.close()
    found: dict[str, list[tuple[int, float]]] = {}
    for row in wandb_rows(tmp_path):
        for key, value in row.items():
            table, _, column = key.partition("/")
            if column not in ("", "step"):
                found.setdefault(key, []).append((row[f"{table}/step"], value))
    assert found == EXPECTED
    assert [file.name for file in tmp_path.iterdir() if file.name != "home"] == ["wandb"]


def test_a_resumed_run_continues_the_wandb_run(tmp_path, offline):
    first = open_loggers(tmp_path, wandb=True)
    first.write("metrics", {"frames": 100, "alpha": 0.5})
    first.close()
    second = open_loggers(tmp_path, wandb=True, resumed_at=100, wandb_id=first.wandb_id)
    second.write("metrics", {"frames": 200, "alpha": 0.25})
    second.close(failed=True)
    assert second.wandb_id == first.wandb_id
    runs = [record.run for record in wandb_records(tmp_path) if record.HasField("run")]
    assert {(run.run_id, run.project, run.display_name) for run in runs} == {
        (first.wandb_id, "rlkit_sac", "run")
    }
    options = {item.key: item.value_json for run in runs for item in run.config.update}
    assert options["seed"] == "3"
    exits = [record.exit.exit_code for record in wandb_records(tmp_path) if record.HasField("exit")]
    assert sorted(exits) == [0, 1]
