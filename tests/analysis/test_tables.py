import numpy as np
import pandas as pd

from rlkit_sac.analysis import markdown_table, write_table

TABLE = pd.DataFrame(
    {
        "task": ["Pendulum-v1", "a|b"],
        "network.num_cells": ["[64, 64]", None],
        "runs": [3, 10],
        "mean": [-1 / 3, 123456.78],
        "low": [np.nan, 3e-4],
    }
)


def test_csv_keeps_all_digits(tmp_path):
    write_table(TABLE, tmp_path / "tables" / "final.csv")
    text = (tmp_path / "tables" / "final.csv").read_text()
    assert text.splitlines() == [
        "task,network.num_cells,runs,mean,low",
        'Pendulum-v1,"[64, 64]",3,-0.3333333333333333,',
        "a|b,,10,123456.78,0.0003",
    ]


def test_no_number_is_rounded_before_its_point_or_to_zero():
    values = [999.96, 1e5 + 0.4, 1e-8, -1234.5678, 0.0, 12.0, 1.5, -2e30]
    lines = markdown_table(pd.DataFrame({"x": values})).splitlines()[2:]
    cells = [line.strip("| ") for line in lines]
    assert cells == ["1000", "100000", "1e-08", "-1235", "0", "12", "1.5", "-2e+30"]
