import math
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlkit_sac.errors import RunError
from rlkit_sac.runs.directory import CSVLog
from tests import processes


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
        "from rlkit_sac.runs.directory import CSVLog; log = CSVLog(Path(sys.argv[1]))\n"
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
        assert again.last == 5
        again.cut()
        assert path.read_text() == "frames,env,x\n5,0,0.1\n5,1,0.2\n"
        again.write({"frames": 6, "env": 0, "x": 0.5})
        assert again.state_dict()["size"] == path.stat().st_size
    assert path.read_text().endswith("5,1,0.2\n6,0,0.5\n")


def test_a_row_with_further_columns_adds_them(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    with closing(CSVLog(path)) as log:
        log.write({"frames": 1, "x": 0.5})
        state = log.state_dict()
        log.write({"frames": 2, "x": 0.25})
        log.write({"frames": 3, "x": 0.5, "y": 7.0})
        log.write({"frames": 4, "x": 0.75})
        assert log.state_dict()["size"] == path.stat().st_size
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
    with pytest.raises(RunError, match=r"m\.csv has \d+ bytes, but had 15 at the checkpoint"):
        CSVLog(path).load_state_dict(state)
