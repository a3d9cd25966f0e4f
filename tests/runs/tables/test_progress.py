from pathlib import Path

import numpy as np

from rlkit_sac.runs.evaluation import EvaluationResult
from rlkit_sac.runs.tables.csv_log import CSVLog
from rlkit_sac.runs.tables.report import final_summary, summary_table


def test_the_table_is_aligned() -> None:
    lines = summary_table({"a": "1", "long name": "2", "b": "3"}).splitlines()
    assert {line.index(value) for line, value in zip(lines, "123", strict=True)} == {11}


def test_the_summary_names_last_and_best_evaluation(tmp_path: Path) -> None:
    with CSVLog(tmp_path / "evaluations.csv") as log:
        for frames, mean in [(1_000, -900.0), (2_000, -150.0), (3_000, -300.0)]:
            returns = np.array([mean - 10, mean + 10])
            result = EvaluationResult(returns, np.array([200, 200]))
            log.write(result.row(frames=frames, seconds=1.0))
    text = final_summary(tmp_path, frames=3_000, updates=2_000, seconds=3_725.0)
    rows = dict(line.split("  ", 1) for line in text.splitlines())
    rows = {name: value.strip() for name, value in rows.items()}
    memory = rows.pop("peak memory")
    assert rows == {
        "last evaluation": "-300.00 ± 10.00 (2 episodes at frame 3,000)",
        "best evaluation": "-150.00 ± 10.00 (2 episodes at frame 2,000)",
        "frames": "3,000",
        "updates": "2,000",
        "wall time": "1:02:05 (1 frames/s)",
        "results": str(tmp_path),
    }
    assert 10 < float(memory.split(" MiB")[0].replace(",", "")) < 100_000
