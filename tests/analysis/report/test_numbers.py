"""The numbers of the page are those that pandas and scipy give for the CSV files."""

import re

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from rlkit_sac.analysis.estimates import Estimator
from rlkit_sac.analysis.report.plotly_figures import Figures
from rlkit_sac.analysis.report.results import read_results
from tests.analysis.report.conftest import RECIPES, SEEDS, TASKS


def read(runs, recipe, task, table):
    """The table of each seed."""
    return [pd.read_csv(runs / recipe / task / f"seed{seed}" / f"{table}.csv") for seed in SEEDS]


@pytest.fixture(scope="module")
def figures(runs):
    return Figures(read_results(runs, "recipe"), Estimator())


def lines(figure, name, panel=0):
    """The traces of a name in a panel, in the order in which they are drawn."""
    axis = "x" if panel == 0 else f"x{panel + 1}"
    return [each for each in figure.data if each.name == name and each.xaxis in (axis, None)]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("recipe", RECIPES)
def test_curves_are_means_and_ranges_of_three_runs(runs, figures, recipe, task):
    tables = read(runs, recipe, task, "evaluations")
    returns = pd.concat(tables).groupby("frames")["return_mean"].agg(["mean", "min", "max"])
    figure = figures.returns(task)
    (curve,) = lines(figure, f"{recipe} (3 runs)")
    np.testing.assert_array_equal(curve.x, returns.index)
    np.testing.assert_allclose(curve.y, returns["mean"])
    np.testing.assert_allclose(curve.customdata, returns[["min", "max"]])
    (band,) = (
        each
        for each in figure.data
        if each.fill and each.legendgroup == curve.legendgroup and each.xaxis == curve.xaxis
    )
    np.testing.assert_allclose(band.y, [*returns["max"], *returns["min"][::-1]])
    (single,) = lines(figure, f"{recipe}: each run")
    assert not single.visible
    wanted = [[*table["return_mean"], np.nan] for table in tables]
    np.testing.assert_allclose(single.y, np.concatenate(wanted))


@pytest.mark.parametrize("task", TASKS)
def test_groups_are_compared_by_a_test_of_significance(runs, page, task):
    acer, sac = (
        [t["return_mean"].iloc[-1] for t in read(runs, r, task, "evaluations")] for r in RECIPES
    )
    test = scipy.stats.mannwhitneyu(acer, sac)
    row = page.read_text().partition("P(x &gt; y)")[2].partition(task)[2].partition("</tr>")[0]
    assert re.findall("<td>(acer|sac)", row) == ["acer", "sac"]
    titles = [float(number) for number in re.findall('title="(.*?)"', row)]
    assert (titles[0], titles[-1]) == pytest.approx((test.statistic / 9, test.pvalue))


def test_each_metric_has_a_panel_with_the_mean_of_the_runs(runs, figures):
    figure = figures.metrics("Ant-v5")
    titles = [each.text for each in figure.layout.annotations]
    assert titles == [
        *("loss_qvalue", "alpha", "q0_mean", "frames_per_second", "grad_norm_all", "q0_max")
    ]
    alpha = pd.concat(read(runs, "sac", "Ant-v5", "metrics")).groupby("frames")["alpha"].mean()
    (curve,) = lines(figure, "sac", panel=1)
    np.testing.assert_allclose(curve.y, alpha.dropna())
    assert not figure.layout.showlegend  # the page has one for all
    assert {each.legendgroup for each in figure.data} == {"group 0", "group 1"}


def test_training_returns_are_means_over_bins_then_over_runs(runs, figures):
    figure = figures.returns("Ant-v5")
    (curve,) = lines(figure, "sac (3 runs)", panel=1)
    title = "Return of training episodes, means over 10 frames"  # 1,000 frames in 100 bins
    assert figure.layout.annotations[1].text == title
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
    assert list(curve.x) == frames
    np.testing.assert_allclose(curve.y, values)


def test_the_table_of_episodes_is_that_of_pandas(runs, page):
    table = pd.concat(read(runs, "sac", "Ant-v5", "episodes"), keys=SEEDS, names=["seed", None])
    of_runs = table.groupby("seed")[["length", "return", "terminated"]].mean()
    last = table.groupby("seed")["return"].apply(lambda values: values.tail(100).mean())
    text = page.read_text()
    for value in [*of_runs.mean(), last.mean()]:
        assert f'title="{float(value)!r}"' in text
    assert f'<span class="number">{len(table)}</span>' in text
