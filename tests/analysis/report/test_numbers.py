"""The numbers of the page are those that pandas and scipy give for the CSV files."""

import numpy as np
import pandas as pd
import pytest

from tests.analysis.report.conftest import RECIPES, SEEDS, TASKS, Parsed


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
    assert f'<span class="number">{len(table)}</span>' in text
