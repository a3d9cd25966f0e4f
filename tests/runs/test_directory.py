import json
import math
import re
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlkit_sac.config import EnvConfig
from rlkit_sac.errors import ConfigError, RunError
from rlkit_sac.runs.directory import RunDirectory, best_frames, read_evaluations
from rlkit_sac.runs.evaluation import EvaluationResult
from rlkit_sac.runs.files import CSVLog
from tests import processes

HOLDER = """
import sys
from rlkit_sac.runs.directory import RunDirectory
with RunDirectory(sys.argv[1]) as run:
    run.begin()
    print("held", flush=True)
    sys.stdin.read()
"""


@dataclass
class Config:
    env: EnvConfig = field(default_factory=EnvConfig)
    seed: int = 0


def create(root: Path, **changes: Any) -> RunDirectory:
    options = {"recipe": "sac", "task": "Pendulum-v1", "seed": 3, "root": root, **changes}
    return RunDirectory.create(Config(), **options)


def info(path: Path) -> dict[str, Any]:
    return dict(json.loads((path / "run.json").read_text()))


def hold(path: Path) -> processes.Process:
    script = path.parent / "holder.py"
    script.write_text(HOLDER)
    holder = processes.Process(script, str(path), cwd=path.parent)
    assert holder.readline() == "held\n"
    return holder


def test_layout(tmp_path: Path) -> None:
    run = create(tmp_path)
    assert run.path.parent == tmp_path / "sac" / "Pendulum-v1"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d-seed3", run.path.name)
    assert (run.path / "config.yaml").read_text().startswith("env:\n  id: Pendulum-v1\n")


def test_status_follows_the_run(tmp_path: Path) -> None:
    with create(tmp_path) as run:
        assert info(run.path)["status"] == "created"
        run.begin()
        started = info(run.path)
        assert started["status"] == "running"
        assert started["finished"] is None
        run.update_info(target_entropy=-1.5, frames=10)
    ended = info(run.path)
    assert (ended["status"], ended["error"]) == ("finished", None)
    assert (ended["target_entropy"], ended["frames"]) == (-1.5, 10)
    assert ended["finished"] >= ended["started"]


def test_a_second_process_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    path = create(tmp_path).path
    with hold(path):
        before = (path / "run.json").read_bytes()
        with pytest.raises(ConfigError, match="in use by another process; wait for its end"):
            RunDirectory(path).__enter__()
        assert (path / "run.json").read_bytes() == before
    with RunDirectory(path) as run:
        assert run.info["status"] == "finished"


@pytest.mark.parametrize(
    "spoil", [Path.mkdir, lambda file: file.symlink_to(file), lambda file: file.symlink_to("no/no")]
)
def test_a_lock_that_the_file_system_does_not_give_is_one_line(spoil: Any, tmp_path: Path) -> None:
    path = create(tmp_path).path
    spoil(path / ".lock")
    with pytest.raises(RunError, match=f"^cannot lock {path}: [A-Z][^\\n]*$"):
        RunDirectory(path).__enter__()


def test_a_killed_holder_does_not_block(tmp_path: Path) -> None:
    path = create(tmp_path).path
    with hold(path) as holder:
        holder.kill()
    assert info(path)["status"] == "running"
    with RunDirectory(path) as run:
        run.begin()
    assert info(path)["status"] == "finished"


def test_tables_go_on_where_a_state_was(tmp_path: Path) -> None:
    with create(tmp_path) as run:
        run.begin()
        run.write("metrics", {"frames": 1, "alpha": 0.5})
        state = run.state_dict()
        run.write("metrics", {"frames": 2, "alpha": 0.25})
        run.write("episodes", {"frames": 2, "env": 0})
    with RunDirectory(run.path) as again:
        again.load_state_dict(state)
        assert (run.path / "metrics.csv").read_text().count("\n") == 3  # nothing changed so far
        again.begin()
        again.write("metrics", {"frames": 3, "alpha": 1.0})
    assert (run.path / "metrics.csv").read_text() == "frames,alpha\n1,0.5\n3,1.0\n"
    assert not (run.path / "episodes.csv").exists()


def read(path: Path) -> pd.DataFrame:
    # Only from version 3 on does pandas keep the last digit unasked.
    exact: dict[str, Any] = {} if pd.__version__ >= "3" else {"float_precision": "round_trip"}
    return pd.read_csv(path, **exact)


@settings(deadline=None, max_examples=50)
@given(values=st.lists(st.floats(), min_size=1, max_size=20))
def test_floats_read_back_bit_equal(
    tmp_path_factory: pytest.TempPathFactory, values: list[float]
) -> None:
    path = tmp_path_factory.mktemp("log") / "m.csv"
    with closing(CSVLog(path)) as log:
        for frames, value in enumerate(values):
            log.write({"frames": frames, "value": value})
    frame = read(path)
    assert frame["frames"].tolist() == list(range(len(values)))
    for read_back, value in zip(frame["value"].astype(float), values, strict=True):
        assert read_back == value or (math.isnan(read_back) and math.isnan(value))


def test_rows_survive_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    code = (
        "import os, signal, sys; from pathlib import Path;"
        "from rlkit_sac.runs.files import CSVLog; log = CSVLog(Path(sys.argv[1]))\n"
        "for i in range(100): log.write({'frames': i, 'x': 0.5})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    script = tmp_path / "killed.py"
    script.write_text(code)
    done = processes.run(script, str(path), cwd=tmp_path)
    assert done.returncode == -9
    assert len(read(path)) == 100


def test_a_log_goes_on_at_a_state_and_forgets_what_came_after(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    with closing(CSVLog(path)) as log:
        log.write({"frames": 5, "env": 0, "x": 0.1})
        log.write({"frames": 5, "env": 1, "x": 0.2})
        state = log.state_dict()
        log.write({"frames": 9, "env": 0, "x": 0.3})
    with path.open("a") as file:
        file.write("10,0,0.")  # a row cut short by a kill
    with closing(CSVLog(path)) as again:
        again.load_state_dict(state)
        again.cut()
        assert path.read_text() == "frames,env,x\n5,0,0.1\n5,1,0.2\n"
        again.write({"frames": 6, "env": 0, "x": 0.5})
        assert again.state_dict() == {"rows": 3}
    assert path.read_text().endswith("5,1,0.2\n6,0,0.5\n")


def test_a_row_with_further_columns_adds_them(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    with closing(CSVLog(path)) as log:
        log.write({"frames": 1, "x": 0.5})
        state = log.state_dict()
        log.write({"frames": 2, "x": 0.25})
        log.write({"frames": 3, "x": 0.5, "y": 7.0})
        log.write({"frames": 4, "x": 0.75})
    whole = "frames,x,y\n1,0.5,\n2,0.25,\n3,0.5,7.0\n4,0.75,\n"
    assert path.read_text() == whole
    with closing(CSVLog(path)) as again:  # from before there was the column
        again.load_state_dict(state)
        again.cut()
        assert path.read_text() == "frames,x,y\n1,0.5,\n"
        again.write({"frames": 2, "x": 0.25})
        second = again.state_dict()
        again.write({"frames": 3, "x": 0.5, "y": 7.0})
        again.write({"frames": 4, "x": 0.75})
    assert path.read_text() == whole
    with closing(CSVLog(path)) as again:
        again.load_state_dict(second)
        again.cut()
    assert path.read_text() == "frames,x,y\n1,0.5,\n2,0.25,\n"


@pytest.mark.parametrize("harm", ["frames,x\n1,0", "", None])
def test_a_table_that_has_lost_rows_is_not_continued(tmp_path: Path, harm: str | None) -> None:
    path = tmp_path / "m.csv"
    with closing(CSVLog(path)) as log:
        log.write({"frames": 1, "x": 0.5})
        state = log.state_dict()
    if harm is None:
        path.unlink()
    else:
        path.write_text(harm)
    with pytest.raises(RunError, match=r"m\.csv has 0 rows, but had 1 at the checkpoint"):
        CSVLog(path).load_state_dict(state)


def test_a_row_of_many_episodes_is_read(tmp_path: Path) -> None:
    """Its last cell is longer than the 131,072 characters that Python's csv reads."""
    with closing(CSVLog(tmp_path / "evaluations.csv")) as log:
        for frames, mean in ((100, math.pi), (200, 1.0)):
            result = EvaluationResult(np.full(10_000, mean), np.full(10_000, 200))
            log.write(result.row(frames, seconds=0.5))
    evaluations = read_evaluations(tmp_path)
    assert best_frames(evaluations, among=[100, 200]) == 100
    assert evaluations["return_mean"].tolist() == [np.full(10_000, math.pi).mean(), 1.0]
