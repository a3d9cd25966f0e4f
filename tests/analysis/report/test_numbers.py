"""The numbers of the page are those that pandas and scipy give for the CSV files."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from rlkit_sac.analysis import write_report
from rlkit_sac.analysis.report.charts import averaged_rows
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


def test_metrics_are_means_over_runs_from_where_all_have_values(runs, parsed):
    means = pd.concat(read(runs, "acer", "Pole-v1", "metrics")).groupby("frames").mean()
    names = [chart["name"] for chart in parsed.data["tasks"][1]["metrics"]["charts"]]
    assert sorted(names) == sorted(set(means.columns) - {"updates", "seconds"})
    for name in names:
        (curve,) = parsed.values(name, "Pole-v1", group=0)
        there = means[name].dropna()
        assert curve["frames"] == list(there.index)
        np.testing.assert_allclose(curve["value"], there, rtol=1e-8)
        assert "low" not in curve
    assert names[:3] == ["loss_qvalue", "alpha", "q0_mean"]  # in the order of their families


def test_the_table_of_results_has_all_digits(runs, page):
    text = page.read_text()
    for task in TASKS:
        for recipe in RECIPES:
            last = pd.concat(read(runs, recipe, task, "evaluations")).query("frames == 1000")
            values = last["return_mean"]
            exact = [values.mean(), values.std(), values.min(), values.max()]
            assert all(f'title="{value!r}"' in text for value in map(float, exact))


def test_the_table_of_episodes_is_that_of_pandas(runs, page):
    table = pd.concat(read(runs, "sac", "Ant-v5", "episodes"), keys=SEEDS, names=["seed", None])
    of_runs = table.groupby("seed")[["length", "return", "terminated"]].mean()
    last = table.groupby("seed")["return"].apply(lambda values: values.tail(100).mean())
    text = page.read_text()
    for value in [*of_runs.mean(), last.mean()]:
        assert f'title="{float(value)!r}"' in text
    assert f'<td class="number">{len(table)}</td>' in text


def test_statistic_confidence_and_groups_are_those_asked_for(tmp_path):
    for seed in range(5):
        write_run(tmp_path, "sac", "Ant-v5", seed)
    write_report(
        tmp_path, tmp_path / "a.html", by="loss.gamma", statistic="iqm", confidence=0.5, title="Iqm"
    )
    parsed = Parsed(tmp_path / "a.html")
    assert parsed.data["groups"] == ["gamma = 0.99"]
    files = [tmp_path / "sac/Ant-v5" / f"seed{seed}" / "evaluations.csv" for seed in range(5)]
    values = np.array([pd.read_csv(file)["return_mean"] for file in files])
    (curve,) = parsed.values("evaluations.curves", "Ant-v5")
    np.testing.assert_allclose(curve["value"], scipy.stats.trim_mean(values, 0.25), rtol=1e-8)
    interval = scipy.stats.bootstrap(
        [values[:, 0]],
        lambda x, axis: scipy.stats.trim_mean(x, 0.25, axis=axis),
        confidence_level=0.5,
        method="percentile",
        random_state=np.random.default_rng(1),
    ).confidence_interval
    np.testing.assert_allclose([curve["low"][0], curve["high"][0]], interval, rtol=0.05)


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


def test_a_bin_holds_its_last_frame_and_not_that_of_the_bin_before():
    data = pd.DataFrame({"run": "a", "frames": [10, 11, 20, 21], "return": [1.0, 2.0, 4.0, 8.0]})
    assert averaged_rows(data, 10, ["return"])["return"].tolist() == [1.0, 3.0, 8.0]


def test_a_shorter_run_is_a_line_of_its_own(tmp_path):
    for seed in SEEDS:
        run = write_run(tmp_path, "sac", "Ant-v5", seed)
    table = pd.read_csv(run / "evaluations.csv")
    table[:5].to_csv(run / "evaluations.csv", index=False)
    with pytest.warns(UserWarning, match="lines of their own"):
        write_report(tmp_path, tmp_path / "a.html")
    parsed = Parsed(tmp_path / "a.html")
    long, short = parsed.values("evaluations.curves", "Ant-v5")
    assert (long["runs"], short["runs"]) == (2, 1)
    np.testing.assert_allclose(short["value"], table["return_mean"][:5], rtol=1e-8)
    assert "low" not in short
