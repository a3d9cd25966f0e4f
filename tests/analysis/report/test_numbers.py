"""The numbers of the page are those that pandas and scipy give for the CSV files."""

import numpy as np
import pandas as pd
import pytest

from rlkit_sac.analysis import write_report
from tests.analysis.report.conftest import RECIPES, SEEDS, TASKS, Parsed, write_run


def read(runs, recipe, task, table):
    """The table of each seed."""
    return [pd.read_csv(runs / recipe / task / f"seed{seed}" / f"{table}.csv") for seed in SEEDS]


@pytest.fixture(scope="module")
def parsed(page):
    return Parsed(page)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("recipe", RECIPES)
def test_curves_are_means_and_ranges_of_three_runs(runs, parsed, recipe, task):
    tables = read(runs, recipe, task, "evaluations")
    returns = pd.concat(tables).groupby("frames")["return_mean"].agg(["mean", "min", "max"])
    (curve,) = parsed.values("evaluations.curves", task, group=RECIPES.index(recipe))
    assert curve["frames"] == list(returns.index)
    assert curve["runs"] == 3
    np.testing.assert_allclose(curve["value"], returns["mean"], rtol=1e-8)
    np.testing.assert_allclose(curve["low"], returns["min"], rtol=1e-8)
    np.testing.assert_allclose(curve["high"], returns["max"], rtol=1e-8)
    np.testing.assert_allclose(curve["seconds"], returns.index * 2.0)  # 1, 2 and 3 s a frame
    single = parsed.values("evaluations.runs", task, group=RECIPES.index(recipe))
    assert len(single) == 3
    for run, table in zip(single, tables, strict=True):
        np.testing.assert_allclose(run["value"], table["return_mean"], rtol=1e-8)
        np.testing.assert_allclose(run["seconds"], table["seconds"])


def test_training_returns_are_means_over_bins_then_over_runs(runs, parsed):
    (curve,) = parsed.values("episodes.curves", "Ant-v5", group=1)
    width = parsed.data["tasks"][0]["episodes"]["width"]
    assert width == 10  # 1,000 frames in 100 bins
    binned = []
    for table in read(runs, "sac", "Ant-v5", "episodes"):
        means = {}
        for end in range(10, 1001, 10):
            inside = (table["frames"] > end - 10) & (table["frames"] <= end)
            if inside.any():
                means[end] = table["return"][inside].mean()
        binned.append(pd.Series(means))
    first = max(series.index[0] for series in binned)
    last = min(series.index[-1] for series in binned)
    frames = [at for at in range(10, 1001, 10) if first <= at <= last]
    frames = [at for at in frames if any(at in series.index for series in binned)]
    values = np.mean([np.interp(frames, s.index, s) for s in binned], axis=0)
    assert curve["frames"] == frames
    np.testing.assert_allclose(curve["value"], values, rtol=1e-8)


def test_the_table_of_episodes_is_that_of_pandas(runs, page):
    table = pd.concat(read(runs, "sac", "Ant-v5", "episodes"), keys=SEEDS, names=["seed", None])
    of_runs = table.groupby("seed")[["length", "return", "terminated"]].mean()
    last = table.groupby("seed")["return"].apply(lambda values: values.tail(100).mean())
    text = page.read_text()
    for value in [*of_runs.mean(), last.mean()]:
        assert f'title="{float(value)!r}"' in text
    assert f'<td class="number">{len(table)}</td>' in text


def test_long_tables_are_averaged_and_the_page_tells_it(tmp_path):
    run = write_run(tmp_path, "sac", "Ant-v5", 0)
    frames = np.arange(1, 2001)
    columns = {"alpha": frames % 7.0, "q0_min": frames % 5.0, "q0_max": frames % 3.0}
    pd.DataFrame({"frames": frames, **columns}).to_csv(run / "metrics.csv", index=False)
    write_report(tmp_path, tmp_path / "a.html")
    parsed = Parsed(tmp_path / "a.html")
    assert parsed.data["tasks"][0]["metrics"]["width"] == 2
    pairs = {name: values.reshape(1000, 2) for name, values in columns.items()}
    (curve,) = parsed.values("alpha", "Ant-v5")
    assert curve["frames"] == list(range(2, 2001, 2))
    assert curve["value"] == list(pairs["alpha"].mean(axis=1))
    assert parsed.values("q0_min", "Ant-v5")[0]["value"] == list(pairs["q0_min"].min(axis=1))
    assert parsed.values("q0_max", "Ant-v5")[0]["value"] == list(pairs["q0_max"].max(axis=1))
