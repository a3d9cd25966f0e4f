"""docs/benchmarks.md shows what the files in docs/data say."""

from __future__ import annotations

import csv
from collections import defaultdict
from statistics import mean

import pytest

from tests.docs.pages import ROOT, tables
from tests.recipes.loading import load_recipe

PAGE = ROOT / "docs" / "benchmarks.md"


@pytest.fixture
def learning():
    return load_recipe("benchmarks/learning")


def read(name: str) -> list[dict[str, str]]:
    with (ROOT / "docs" / "data" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_page_is_up_to_date(learning) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert learning.filled(page) == page, "run python recipes/benchmarks/learning.py"


def test_means_are_those_of_the_last_evaluations() -> None:
    curves = defaultdict(dict)
    for row in read("evaluations"):
        key = row["recipe"], row["task"], row["configuration"]
        curves[key].setdefault(row["seed"], {})[int(row["frames"])] = float(row["return_mean"])
    shown = {tuple(cells[:3]): cells[3:] for cells in rows("| recipe ")}
    for key, runs in curves.items():
        end = min(max(run) for run in runs.values())
        frames, count, value = shown[key][:3]
        assert (int(frames), int(count)) == (end, len(runs))
        assert float(value) == pytest.approx(mean(run[end] for run in runs.values()), rel=6e-4)


def rows(header: str) -> list[list[str]]:
    found = [[cell.strip() for cell in cells] for cells in tables(PAGE, header)]
    return [cells for cells in found if not cells[0].startswith((":-", "--"))]
