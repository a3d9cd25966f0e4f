"""The tables of a run that is being written, as other processes read them."""

import time

import pandas as pd
import pytest

from rlkit_sac.analysis import load_runs
from tests.reliability.runs import SHORT, only_run, start

TABLES = ("metrics", "episodes", "evaluations")


@pytest.mark.parametrize("frames", [150, pytest.param(600, marks=pytest.mark.slow)])
def test_a_reader_sees_whole_rows_while_a_run_writes(tmp_path, frames):
    options = [*SHORT, "--logging.interval", "1", "--evaluation.interval", "10"]
    options += ["--env.max_episode_steps", "7", "--collector.total_frames", str(frames)]
    seen: dict[str, list[pd.DataFrame]] = {name: [] for name in TABLES}
    with start(tmp_path, *options) as process:
        while process.poll() is None:
            for name in TABLES:
                for _ in tmp_path.glob(f"runs/*/*/*/{name}.csv"):
                    rows = load_runs(tmp_path / "runs", table=name)
                    if not seen[name] or len(rows) != len(seen[name][-1]):
                        seen[name].append(rows)
            time.sleep(0.02)
        assert process.wait() == 0, process.stderr.read()
    path = only_run(tmp_path)
    for name in TABLES:
        final = load_runs(path, table=name).drop(columns="status")
        lengths = [len(rows) for rows in seen[name]]
        assert len(lengths) > 3, "it was not read while it grew"
        assert lengths == sorted(lengths)
        for rows in seen[name]:
            if len(rows):
                rows = rows.drop(columns="status")
                pd.testing.assert_frame_equal(rows, final[: len(rows)], check_dtype=False)
        assert (path / f"{name}.csv").read_bytes().endswith(b"\n")
