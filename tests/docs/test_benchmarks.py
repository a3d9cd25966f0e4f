"""docs/benchmarks.md shows what the files in docs/data say."""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from pathlib import Path
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


def test_a_page_without_a_place_for_a_table_is_refused(learning) -> None:
    with pytest.raises(ValueError, match="0 places for results"):
        learning.filled("# Benchmarks")


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


def test_every_recipe_has_three_seeds() -> None:
    recipes = {path.stem for path in (ROOT / "recipes").glob("*.py")}
    assert {cells[0] for cells in rows("| recipe ") if int(cells[4]) >= 3} >= recipes


def test_every_published_return_is_shown_with_its_source() -> None:
    page = PAGE.read_text(encoding="utf-8")
    shown = {(row["recipe"], row["task"]) for row in read("evaluations")}
    for row in read("published"):
        if (row["recipe"], row["task"]) in shown:
            assert f"[{row['system']}]({row['source']}), {row['published_task']}" in page


def test_every_run_has_its_versions() -> None:
    keys = ["recipe", "configuration", "task", "seed"]
    runs = [tuple(row[key] for key in keys) for row in read("runs")]
    assert len(runs) == len(set(runs))
    assert set(runs) == {tuple(row[key] for key in keys) for row in read("evaluations")}


def test_the_figures_are_there(learning) -> None:
    shown = re.findall(r"\((images/benchmarks/\w+\.png)\)", PAGE.read_text(encoding="utf-8"))
    assert shown == [f"images/benchmarks/{name}.png" for name in learning.FIGURES]
    for path in shown:
        assert (ROOT / "docs" / path).read_bytes().startswith(b"\x89PNG")


def write_run(folder: Path, seed: int, returns: list[int], status: str) -> None:
    folder.mkdir(parents=True)
    versions = dict.fromkeys(["torch", "torchrl", "tensordict", "gymnasium", "numpy"], "1.0")
    description = {
        "recipe": "acer",
        "task": "CartPole-v1",
        "seed": seed,
        "status": status,
        "command": "python acer.py --config configs/acer/cartpole.yaml",
        "versions": versions | {"rlkit_sac": "9.9.1"},
        "python": "3.11.7",
        "num_threads": 1,
        "compile_from": None,
        "git_revision": "abc",
    }
    (folder / "run.json").write_text(json.dumps(description))
    lines = [f"{10 * k},1,{x},0,{x},{x},5,{10 * k}" for k, x in enumerate(returns, 1)]
    header = "frames,episodes,return_mean,return_std,return_min,return_max,length_mean,seconds"
    (folder / "evaluations.csv").write_text("\n".join([header, *lines]) + "\n")


def test_finished_runs_take_the_place_of_earlier_ones(learning, tmp_path, monkeypatch) -> None:
    """Numbers by hand: two new seeds of which one is longer, one that still runs, one kept."""
    (tmp_path / "data").mkdir()
    for name in ("evaluations", "runs"):
        header, *lines = (ROOT / "docs" / "data" / f"{name}.csv").read_text().splitlines()
        lines = [line for line in lines if re.match("acer,cartpole,CartPole-v1,[14],", line)]
        (tmp_path / "data" / f"{name}.csv").write_text("\n".join([header, *lines]) + "\n")
    monkeypatch.setattr(learning, "DOCS", tmp_path)
    write_run(tmp_path / "runs" / "a", 0, [1, 3, 9], "finished")
    write_run(tmp_path / "runs" / "b", 1, [5, 7], "finished")
    write_run(tmp_path / "runs" / "c", 2, [0], "running")
    learning.collect([str(tmp_path / "runs")])
    before = (tmp_path / "data" / "evaluations.csv").read_text()
    learning.collect([str(tmp_path / "runs")])
    assert (tmp_path / "data" / "evaluations.csv").read_text() == before
    write_run(tmp_path / "again" / "b", 1, [5, 7], "finished")
    with pytest.raises(SystemExit, match=r"several runs of the same seed: .*again/b.*runs/b"):
        learning.collect([str(tmp_path / "runs"), str(tmp_path / "again")])
    assert (tmp_path / "data" / "evaluations.csv").read_text() == before
    assert str(tmp_path) not in before
    old = [row for row in read("evaluations") if row["configuration"] == "cartpole"]
    old = [row for row in old if (row["recipe"], row["seed"]) == ("acer", "4")]
    kept = [row for row in csv.DictReader(before.splitlines()) if row["seed"] == "4"]
    assert [float(row["return_mean"]) for row in kept] == [float(row["return_mean"]) for row in old]
    for name in ("evaluations", "runs"):  # without it
        path = tmp_path / "data" / f"{name}.csv"
        lines = path.read_text().splitlines()
        path.write_text("\n".join(x for x in lines if "CartPole-v1,4," not in x) + "\n")
    table = learning.results()
    assert list(table["recipe"]) == ["acer", "acer, longer"]
    assert list(table["frames"]) == [20, 30]
    assert list(table["mean"]) == [5, 9]
    assert list(table["version"]) == ["9.9.1", "9.9.1"]
