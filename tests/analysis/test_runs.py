import json
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit_sac.analysis import (
    final_performance,
    load_runs,
    plot_learning_curves,
    write_report,
)
from rlkit_sac.analysis.runs import TABLES
from rlkit_sac.errors import RunError

EVALUATIONS = 'frames,return_mean,returns\n1000,-900.5,"[-901.0, -900.0]"\n2000,-150.0,"[-150.0]"\n'


def test_rows_carry_the_identity_of_their_run(make_run, tmp_path):
    make_run("b", seed=1, status="running", evaluations="frames,return_mean\n500,-3.0\n")
    make_run("a", seed=0, evaluations=EVALUATIONS)
    data = load_runs(tmp_path)
    assert set(data["configuration"]) == {"default"}
    assert data["seed"].tolist() == [0, 0, 1]
    assert data["status"].tolist() == ["finished", "finished", "running"]
    assert data["frames"].tolist() == [1000, 2000, 500]
    assert data["return_mean"].tolist() == [-900.5, -150.0, -3.0]
    assert data["returns"].iloc[0] == "[-901.0, -900.0]"
    assert set(data["recipe"]) == {"sac"}
    assert data["run"].nunique() == 2


@pytest.mark.parametrize("name", ["mine", "default"])
def test_the_configuration_of_a_run_is_a_column_and_names_its_group(make_run, name):
    rows = dict.fromkeys(TABLES, "frames,return_mean,return\n1,2,3\n")
    run_dir = make_run("a", configuration=name, config="seed: 0", **rows)
    for table in TABLES:
        assert load_runs(run_dir, table=table)["configuration"].tolist() == [name]
    data = load_runs(run_dir)
    label = "sac" if name == "default" else f"sac, {name}"
    assert final_performance(data)["configuration"].tolist() == [name]
    (line,) = plot_learning_curves(data).legends[0].get_texts()
    assert line.get_text() == f"{label} (1 run)"
    write_report(run_dir, run_dir / "report.html")
    assert f"<td>{label}</td>" in (run_dir / "report.html").read_text()


def test_tables_show_what_matters_in_80_columns(make_run):
    columns = "frames,episodes,return_mean,return_std,return_min,length_mean,seconds,returns"
    rows = '1000,10,-900.5,1.0,-901.5,200.0,80.219764,"[-901.5, -900.5, -899.5]"'
    run_dir = make_run("a", evaluations=f"{columns}\n{rows}\n")
    with pd.option_context("display.width", 80, "display.max_columns", 0):
        data = load_runs(run_dir)
        printed, lines = repr(data).split("\n\n")[0].splitlines(), repr(final_performance(data))
    assert set(printed[0].split()) > {"seed", "frames", "return_mean", "configuration", "task"}
    assert set(lines.splitlines()[0].split()) > {"task", "recipe", "mean", "low", "high"}


@pytest.mark.parametrize("cut", range(1, len("2000,-150.5\n")))
def test_a_row_counts_once_its_newline_is_written(make_run, cut):
    text = "frames,return_mean\n1000,-900.0\n2000,-150.5\n"
    run_dir = make_run("a", evaluations=text[:-cut])
    assert load_runs(run_dir)["frames"].tolist() == [1000]


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ("run.json", b'{"recipe": "sac"'),
        ("run.json", b'{"recipe": "sac"}'),
        ("run.json", b"[]"),
        ("evaluations.csv cannot be read: ParserError", b"frames\n1,2\n3,4,5,6\n"),
        (
            "evaluations.csv cannot be read: UnicodeDecodeError",
            b"frames,return_mean\n1,2\n\xff\xfe,1\n",
        ),
        ("evaluations.csv, line 3: frames should", b"frames,return_mean\n1,2\n3x,4\n"),
        ("evaluations.csv, line 3: frames is missing", b"frames,return_mean\n1,2\n,4\n"),
        ("evaluations.csv has no column return_mean", b"frames,reward\n1,2\n"),
    ],
)
def test_a_damaged_file_is_named_and_a_table_with_its_line(make_run, message, content):
    run_dir = make_run("a", evaluations=EVALUATIONS)
    (run_dir / re.match(r"\S+(json|csv)", message)[0]).write_bytes(content)
    with pytest.raises(RunError, match=message):
        load_runs(run_dir)


@pytest.mark.parametrize(
    ("table", "rows", "message"),
    [
        ("metrics", "frames,alpha\n1,0.5\n1,0.4\n", "line 3: frames 1 come after 1"),
        ("evaluations", "frames,return_mean\n2,0\n1,0\n", "line 3: frames 1 come after 2"),
        ("episodes", "frames,return\n2,0\n1,0\n", "line 3: frames 1 come after 2"),
    ],
)
def test_odd_rows_are_kept_with_a_warning(make_run, table, rows, message):
    run_dir = make_run("a", **{table: rows})
    with pytest.warns(UserWarning, match=message):
        assert len(load_runs(run_dir, table=table)) == 2


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("episodes", "frames,return,terminated\n2,0,true\n2,1,\n"),  # of environments side by side
        ("metrics", "frames,alpha,stage\n1,,first\n2,0.5,second\n"),
    ],
)
def test_what_runs_write_brings_no_warning(make_run, table, rows):
    run_dir = make_run("a", **{table: rows})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(load_runs(run_dir, table=table)) == 2


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_floats_are_read_exactly(values):
    with tempfile.TemporaryDirectory() as folder:
        description = {"recipe": "sac", "task": "T", "seed": 0, "status": "finished"}
        (Path(folder) / "run.json").write_text(json.dumps(description))
        rows = "".join(f"{k},{value!r}\n" for k, value in enumerate(values))
        (Path(folder) / "evaluations.csv").write_text(f"frames,return_mean\n{rows}")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert load_runs(folder)["return_mean"].tolist() == values


def test_tables_and_intervals_import_neither_torch_nor_scipy_nor_matplotlib():
    code = (
        "import sys, numpy; from rlkit_sac.analysis.estimates import Estimator; "
        "Estimator('iqm').interval(numpy.arange(5.0)); "
        "names = {'torch', 'tensordict', 'scipy', 'matplotlib'}; "
        "sys.exit(str(sorted(names & set(sys.modules))))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stderr.strip() == "[]"
