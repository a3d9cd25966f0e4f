"""The page has the numbers of pandas and SciPy for the CSV files, and loads nothing."""

import base64
import html.parser
import json
import re

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from rlkit_sac.analysis import write_report
from rlkit_sac.errors import ConfigError

TASKS, RECIPES, SEEDS = ("Ant-v5", "Pole-v1"), ("acer", "sac"), range(3)
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'`${x}<!--"


def write_run(folder, recipe, task, seed, /, **description):
    """A run of 1,000 frames, whose numbers come of its recipe, task and seed."""
    run = folder / recipe / task / f"seed{seed}"
    run.mkdir(parents=True)
    info = {"recipe": recipe, "task": task, "seed": seed, "status": "finished", "host": "a"}
    (run / "run.json").write_text(json.dumps(info | {"versions": {"torch": "2.9"}} | description))
    gamma = 0.99 if recipe == "sac" else 0.9
    config = f"loss: {{gamma: {gamma}}}\nupdate: {{lr_actor: 0.001}}\nseed: {seed}\n"
    (run / "config.yaml").write_text(config)
    random = np.random.default_rng([len(recipe), len(task), seed])
    frames, ends = np.arange(100, 1001, 100), np.arange(7 + seed, 1001, 7 + seed)
    tables = {
        "evaluations": {"frames": frames, "return_mean": random.normal(100, 30, 10)},
        "episodes": {
            **{"frames": ends, "return": random.normal(50, 10, len(ends)), "length": 7 + seed},
            "terminated": np.where(random.random(len(ends)) < 0.5, "true", "false"),
        },
        "metrics": {"frames": frames, "alpha": [np.nan, *random.normal(1, 0.2, 9)]},
    }
    for name, columns in tables.items():
        pd.DataFrame(columns).to_csv(run / f"{name}.csv", index=False)
    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two recipes on two tasks, with three seeds each."""
    folder = tmp_path_factory.mktemp("runs")
    for task in TASKS:
        for recipe in RECIPES:
            for seed in SEEDS:
                write_run(folder, recipe, task, seed)
    return folder


@pytest.fixture(scope="module")
def page(runs):
    write_report(runs, runs / "pages" / "report.html")
    return (runs / "pages" / "report.html").read_text()


def read(runs, recipe, task, table):
    return [pd.read_csv(runs / recipe / task / f"seed{seed}" / f"{table}.csv") for seed in SEEDS]


def rows_of(page, section):
    """The cells of each row of the tables of a section."""
    text = page.partition(f'<section id="{section}">')[2].partition("</section>")[0]
    return [re.findall(r"<td>(.*?)</td>", row) for row in text.split("<tr")]


def numbers(values):
    """The values of a trace, which plotly writes in base64."""
    if isinstance(values, dict):
        return np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"])
    return np.array(values, dtype=float)


def curve(page, name, title):
    """The frames and values of a line and the edge of its band."""
    traces = []
    for call in re.finditer(r'Plotly\.newPlot\(\s*"[^"]*",\s*', page):
        data, end = json.JSONDecoder().raw_decode(page, call.end())
        layout, _ = json.JSONDecoder().raw_decode(page, page.index("{", end))
        titles = [text["text"] for text in layout["annotations"]]
        centers = {text["text"]: (text["x"], text["y"]) for text in layout["annotations"]}
        if title not in titles:
            continue
        x, y = centers[title]
        for trace in data:
            axis = layout["xaxis" + trace["xaxis"][1:]]["domain"]
            other = layout["yaxis" + trace["yaxis"][1:]]["domain"]
            if axis[0] < x < axis[1] and abs(other[1] - y) < 1e-9 and trace["legendgroup"] == name:
                traces.append((numbers(trace["x"]), numbers(trace["y"])))
    (x, y), (_, band) = traces
    return x, y, band


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("recipe", RECIPES)
def test_curves_are_means_and_ranges_of_three_runs(runs, page, recipe, task):
    tables = pd.concat(read(runs, recipe, task, "evaluations"))
    returns = tables.groupby("frames")["return_mean"].agg(["mean", "min", "max"])
    x, y, band = curve(page, recipe, f"{task}: return of evaluations")
    np.testing.assert_array_equal(x, returns.index)
    np.testing.assert_allclose(y, returns["mean"])
    np.testing.assert_allclose(band, [*returns["min"], *returns["max"][::-1]])
    alpha = pd.concat(read(runs, recipe, task, "metrics")).groupby("frames")["alpha"].mean()
    np.testing.assert_allclose(curve(page, recipe, f"{task}: alpha")[1], alpha.dropna())


def test_training_returns_are_means_over_bins_then_over_runs(runs, page):
    title = "Ant-v5: return of training episodes, means over 10 frames"  # 1,000 in 100 bins
    x, y, _ = curve(page, "sac", title)
    ends = [
        (table, np.ceil(table["frames"] / 10) * 10)
        for table in read(runs, "sac", "Ant-v5", "episodes")
    ]
    binned = [table.groupby(end)["return"].mean() for table, end in ends]
    first, last = max(b.index[0] for b in binned), min(b.index[-1] for b in binned)
    frames = [f for f in sorted({*np.concatenate([b.index for b in binned])}) if first <= f <= last]
    assert list(x) == frames
    np.testing.assert_allclose(y, np.mean([np.interp(frames, b.index, b) for b in binned], axis=0))


def test_tables_are_those_of_pandas_and_scipy(runs, page):
    last = {
        (task, recipe): [t["return_mean"].iloc[-1] for t in read(runs, recipe, task, "evaluations")]
        for task in TASKS
        for recipe in RECIPES
    }
    results = rows_of(page, "results")
    for (task, recipe), values in last.items():
        (row,) = (cells for cells in results if cells[:2] == [task, recipe])
        assert f"{np.mean(values):.4g}" in row
        assert f"{np.min(values):.4g}" in row
    for task in TASKS:
        test = scipy.stats.mannwhitneyu(last[task, "acer"], last[task, "sac"])
        (row,) = (cells for cells in results if cells[:3] == ["acer", "sac", task])
        assert row[5] == f"{test.statistic / 9:.4g}"
        assert row[-1] == f"{test.pvalue:.4g}"
    episodes = read(runs, "sac", "Ant-v5", "episodes")
    of_runs = [table[["length", "return", "terminated"]].mean() for table in episodes]
    (row,) = (cells for cells in rows_of(page, "episodes") if cells[:2] == ["Ant-v5", "sac"])
    means = [f"{x:.4g}" for x in pd.concat(of_runs, axis=1).mean(axis=1)]
    assert row[2:7] == ["3", str(sum(map(len, episodes))), *means]
    configuration = rows_of(page, "configuration")
    assert ["loss.gamma", "0.9", "0.9", "0.99", "0.99"] in configuration
    assert ["update.lr_actor", "0.001"] in configuration
    assert ["versions.torch", "2.9"] in rows_of(page, "system")


class Elements(html.parser.HTMLParser):
    """The elements of a page with their attributes, and all of its text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, text):
        self.text += text


def test_the_page_loads_nothing(page):
    policy = next(a["content"] for _, a in Elements(page).elements if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'; ")
    assert "http" not in policy
    for tag, attributes in Elements(page).elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert not {"src", "srcset", "action"} & attributes.keys()
        assert attributes.get("href", "#").startswith("#")


def test_what_a_stranger_writes_is_text(page, tmp_path):
    names = ("host", "platform", "command", "error", "device", "started", "task", "status")
    for seed, recipe in enumerate(("sac", EVIL)):
        description = {**dict.fromkeys(names, EVIL), "recipe": recipe}
        versions = {EVIL: EVIL, "torch": [EVIL]}
        run = write_run(tmp_path, "sac", "Ant-v5", seed, versions=versions, **description)
        (run / "config.yaml").write_text(json.dumps({EVIL: {EVIL: recipe}, "loss": EVIL}))
        pd.DataFrame({"frames": [1], EVIL: [1.0]}).to_csv(run / "metrics.csv", index=False)
        (run / "videos").mkdir()
        (run / "videos" / "a\"b<c>'d&#x e?f:.mp4").touch()
    write_report(tmp_path, tmp_path / "page.html", title=EVIL)
    found = Elements((tmp_path / "page.html").read_text())
    known = {tag for tag, _ in Elements(page).elements}
    assert {tag for tag, _ in found.elements} <= known | {"li"}
    assert len([tag for tag, _ in found.elements if tag == "script"]) == 3  # plotly and two charts
    assert not any(name.startswith("on") for _, a in found.elements for name in a)
    links = [a["href"] for tag, a in found.elements if tag == "a" and a["href"][0] != "#"]
    file = "videos/a%22b%3Cc%3E%27d%26%23x%20e%3Ff%3A.mp4"
    assert links == [f"./sac/Ant-v5/seed{seed}/{file}" for seed in range(2)]
    assert EVIL in found.text


@pytest.mark.parametrize("table", ["evaluations", "episodes", "metrics"])
def test_a_damaged_table_costs_its_run_and_no_other(tmp_path, table):
    for seed in (0, 1):
        file = write_run(tmp_path, "sac", "Ant-v5", seed) / f"{table}.csv"
    pd.read_csv(file).assign(frames=None).to_csv(file, index=False)
    with pytest.warns(UserWarning, match=rf"seed1/{table}.csv, line 2: frames is missing"):
        write_report(tmp_path, tmp_path / "page.html")
    assert f"{table}.csv, line 2: frames is missing" in (tmp_path / "page.html").read_text()


def test_logs_of_other_systems_are_among_the_results(runs, tmp_path):
    rows = "".join(f"{frames},{frames / 10}\n" for frames in range(100, 1001, 100))
    (tmp_path / "sb3").mkdir()
    log = tmp_path / "sb3" / "progress.csv"
    log.write_text("time/total_timesteps,eval/mean_reward\n" + rows)
    with pytest.warns(UserWarning, match=r"no episodes were read: .*sb3 has no charts/"):
        write_report([runs / "sac" / "Ant-v5", log], tmp_path / "page.html", task="Ant-v5")
    page = (tmp_path / "page.html").read_text()
    (row,) = (cells for cells in rows_of(page, "results") if "Stable-Baselines3" in cells)
    assert [row[0], row[2], row[-1]] == ["Ant-v5", "1000", "1000"]
    assert any("Stable-Baselines3" in cells for cells in rows_of(page, "runs"))
    with pytest.warns(UserWarning, match="do not tell its task"):
        write_report([runs / "sac" / "Ant-v5", log], tmp_path / "page.html")
    with pytest.raises(ConfigError, match=r"'loss.gama'; did you mean loss.gamma"):
        write_report(runs, tmp_path / "page.html", by="loss.gama")
