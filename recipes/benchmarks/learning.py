"""The figures and tables of docs/benchmarks.md and docs/fast.md, from evaluations in docs/data.

    python recipes/benchmarks/learning.py
    python recipes/benchmarks/learning.py --collect runs        # take over these runs first

`--collect` copies the evaluations of all finished runs below the given folders to evaluations.csv,
and what they were made with to runs.csv, the processor of this machine included. A run takes the
place of an earlier one of the same recipe, configuration, task and seed: where the configuration
has changed since, run all seeds anew. Figures and tables are then made from docs/data alone;
published.csv has the numbers that others published.

A group of runs is cut where its shortest run ends. The longer runs of a group are shown a second
time, whole.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from timing import processor

from rlkit_sac.analysis import (
    area_under_curve,
    final_performance,
    frames_to_threshold,
    learning_curves,
    load_runs,
    markdown_table,
    plot_learning_curves,
)
from rlkit_sac.analysis.figures import COLORS
from rlkit_sac.analysis.runs import read_description, read_rows

DOCS = Path(__file__).parents[2] / "docs"
GROUP = ["recipe", "configuration", "task"]
RUN = [*GROUP, "seed"]
LONGER = ", longer"
# What each figure shows, as recipe and configuration.
FIGURES = {
    "mujoco": [
        "sac/fast",
        "sac/fast_300000",
        "sac/halfcheetah",
        "sac/hopper",
        "sac/walker2d",
        "sac/ant",
    ],
    "small_tasks": [
        *("sac/default", "sac/published", "value_sac/default", "kl_prior_sac/published"),
        *("sac/inverted_pendulum", "sac/fast", "discrete_sac/default", "discrete_sac/cartpole"),
        *("discrete_sac/fast", "discrete_sac/published", "discrete_sac/taxi"),
        *("hybrid_sac/default", "hybrid_sac/platform", "hybrid_sac/platform_fast"),
        *("hybrid_sac/goal_fast", "hybrid_sac/hard_move_v1"),
    ],
    "acer": [
        f"acer/{name}" for name in ("default", "cartpole", "pendulum", "acrobot", "lunar_lander")
    ],
    "minatar": [
        f"{name}/minatar_{game}"
        for name in ("acer", "discrete_sac")
        for game in ("breakout", "space_invaders")
    ],
}
MARKERS = "DsX^v"
MUJOCO = "HalfCheetah|Hopper|Walker2d|Ant|Humanoid"
#: Recipes whose defaults are not the published options.
NEW_DEFAULTS = ("sac", "kl_prior_sac", "discrete_sac", "hybrid_sac", "acer")


def main() -> None:
    """Collect runs if asked to, then write the figures and the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--collect", nargs="+", metavar="RUNS", help="folders with new runs")
    arguments = parser.parse_args()
    if arguments.collect is not None:
        collect(arguments.collect)
    for name, shown in FIGURES.items():
        draw(name, shown)
    draw_seconds()
    tables = {"results": results(), "published": beside_published()}
    for name, of_page in (("benchmarks", tables), ("fast", {"seconds": seconds()})):
        page = DOCS / f"{name}.md"
        page.write_text(filled(page.read_text(encoding="utf-8"), of_page), encoding="utf-8")


def read(name: str) -> pd.DataFrame:
    """A table of docs/data, numbers with all their digits."""
    return read_rows(DOCS / "data" / f"{name}.csv", []).reset_index(drop=True)


def collect(folders: list[str]) -> None:
    """Take finished runs over into docs/data.

    Args:
        folders: run directories, or folders above them.
    """
    rows = load_runs(folders).query("status == 'finished'")
    runs = pd.DataFrame([describe(Path(run)) for run in rows["run"].unique()])
    if repeated := sorted(runs.loc[runs.duplicated(RUN, keep=False), "run"]):
        raise SystemExit(f"several runs of the same seed: {', '.join(repeated)}; give one of them")
    for name, new in (("evaluations", rows), ("runs", runs)):
        kept = read(name)
        replaced = kept[RUN].agg(tuple, axis=1).isin(set(new[RUN].agg(tuple, axis=1)))
        table = pd.concat([kept[~replaced], new[kept.columns]])
        table = table.sort_values([*RUN, kept.columns[4]]).convert_dtypes()
        table.to_csv(DOCS / "data" / f"{name}.csv", index=False, lineterminator="\n")


def describe(run: Path) -> dict[str, object]:
    """What a run was made with.

    Args:
        run: its directory.
    """
    told = read_description(run / "run.json")
    return {"run": str(run), **told, **told["versions"], "processor": processor()}


def groups() -> pd.DataFrame:
    """The kept evaluations; longer runs of a group are there twice, cut and as "…, longer"."""
    data = read("evaluations")
    data["run"] = data[RUN].astype(str).agg("/".join, axis=1)
    ends = data.groupby([*GROUP, "run"])["frames"].transform("max")
    common = ends.groupby([data[name] for name in GROUP]).transform("min")
    longer = data[ends > common]
    longer = longer.assign(recipe=longer["recipe"] + LONGER)
    return pd.concat([data[data["frames"] <= common], longer], ignore_index=True)


def draw(name: str, shown: list[str]) -> None:
    """A figure in docs/images/benchmarks: curves, and published returns as marks.

    Args:
        name: of the file.
        shown: recipes with their configurations.
    """
    data, published = (
        table[(table["recipe"].str.removesuffix(LONGER) + "/" + table["configuration"]).isin(shown)]
        for table in (groups(), read("published"))
    )
    if name in ("mujoco", "small_tasks"):
        data = data[data["task"].str.contains(MUJOCO) == (name == "mujoco")]
    new = data["configuration"].str.contains("fast|default") & data["recipe"].isin(NEW_DEFAULTS)
    data["recipe"] = data["recipe"].mask(new, data["recipe"] + ", with the defaults")
    figure = plot_learning_curves(data, by="recipe")
    ends = data.groupby("task")["frames"].max()
    systems = list(published["system"].unique())
    marks = {}
    for axes in figure.axes:
        task = axes.get_title()
        for system, rows in published[published["task"] == task].groupby("system", sort=False):
            reached = rows[rows["frames"] <= ends[task]]
            if len(reached):
                marks[system] = axes.plot(
                    reached["frames"],
                    reached["return"],
                    linestyle="",
                    marker=MARKERS[systems.index(system)],
                    color="black",
                    markerfacecolor="none",
                    clip_on=False,
                    label=f"published: {system}",
                )[0]
            else:
                marks["later"] = axes.axhline(
                    rows["return"].iloc[0],
                    color="0.4",
                    linestyle=":",
                    label="published, after more frames",
                )
    figure.legend(handles=list(marks.values()), loc="outside upper center", ncols=3, frameon=False)
    path = DOCS / "images" / "benchmarks" / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=150, metadata={"Software": None})


def draw_seconds() -> None:
    """The figure of return against wall-clock seconds, of runs of `fast.py`."""
    figure = plt.figure(figsize=(9, 4), layout="constrained")
    axes = figure.add_subplot(xlabel="seconds", ylabel="return", title="HalfCheetah-v5, one core")
    for color, (system, runs) in zip(
        COLORS, read("seconds").groupby("variant", sort=False), strict=False
    ):
        for _, run in runs.groupby("seed"):
            axes.plot(run["seconds"], run["return_mean"], color=color, label=system)
            system = None
    figure.legend(loc="outside right upper", frameon=False)
    figure.savefig(DOCS / "images" / "benchmarks" / "seconds.png", dpi=150)


def seconds() -> pd.DataFrame:
    """A row for each system of the figure: how soon it gets there, in seconds and in frames."""
    data = read("seconds").assign(task="HalfCheetah-v5")
    data["run"] = data["variant"] + data["seed"].astype(str)
    timed = data.assign(frames=data["seconds"])
    tables = {
        "seconds to 2,000": frames_to_threshold(timed, 2000, by="variant"),
        "seconds to 4,000": frames_to_threshold(timed, 4000, by="variant"),
        "frames to 4,000": frames_to_threshold(data, 4000, by="variant"),
    }
    areas = area_under_curve(data, by="variant")
    tables[f"mean return to frame {areas['end'].iloc[0]:,}"] = areas
    rows = {
        name: [interval(*row) for row in table[["value", "low", "high"]].to_numpy()]
        for name, table in tables.items()
    }
    table = areas[["variant", "runs"]].assign(**rows)
    return table.set_index("variant").loc[data["variant"].unique()].reset_index()


def filled(page: str, tables: Mapping[str, pd.DataFrame]) -> str:
    """The page with its tables anew.

    Args:
        page: its text, with a pair of comments around each table.
        tables: by the names in these comments.
    """
    for name, table in tables.items():
        opening, closing = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        pattern = re.compile(f"(?<={re.escape(opening)}).*?(?={re.escape(closing)})", re.DOTALL)
        text = f"\n{markdown_table(table)}\n"
        page, count = pattern.subn(lambda _, text=text: text, page)
        if count != 1:
            raise ValueError(f"the page has {count} places for {name}, not 1")
    return page


def results() -> pd.DataFrame:
    """A row for each group of runs: how it ends."""
    table = final_performance(groups(), by=["recipe", "configuration"])
    table = table.sort_values(["recipe", "task"])
    table["mean"] = [interval(*row) for row in table[["mean", "low", "high"]].to_numpy()]
    recipe = table["recipe"].str.removesuffix(LONGER)
    table["configuration"] = recipe + "/" + table["configuration"]
    return table[["configuration", "task", "frames", "runs", "mean"]]


def interval(value: float, low: float, high: float) -> str:
    """A mean with its interval, if there is one.

    Args:
        value: the mean.
        low: end of the interval, NaN for a single run.
        high: its other end.
    """
    return number(value) + ("" if np.isnan(low) else f" [{number(low)}, {number(high)}]")


def number(value: float) -> str:
    """Four digits, or all before the point; what was not reached is infinite."""
    if np.isinf(value):
        return "never"
    return f"{value:.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def beside_published() -> pd.DataFrame:
    """Our returns beside published ones after as many frames, or at the end if that is less."""
    data = groups()
    rows = []
    for row in read("published").to_dict("records"):
        own = data[data["configuration"].eq(row["configuration"]) & data["task"].eq(row["task"])]
        parts = [own[own["recipe"] == row["recipe"] + end] for end in ("", LONGER)]
        if parts[0].empty:
            continue
        part = next((p for p in parts if p["frames"].max() >= row["frames"]), parts[0])
        # A curve with a point at 49,998 frames and one at 50,000 are the same place.
        frames = int(np.nanmin([np.round(row["frames"], -2), part["frames"].max()]))
        curve = learning_curves(part, frames=[frames]).iloc[0]
        told = number(row["return"]) + (f" ± {row['std']:.4g}" if row["std"] > 0 else "")
        if row["frames"] > 1.01 * frames:
            told += f" at {row['frames']:,.0f}"
        if row["kind"] == "training":
            told += " in training"
        rows.append(
            {
                "configuration": f"{row['recipe']}/{row['configuration']}",
                "task": row["task"],
                **curve[["frames", "runs"]],
                "mean": interval(curve["value"], curve["low"], curve["high"]),
                "published": f"[{row['system']}]({row['source']}) {told}",
            }
        )
    table = pd.DataFrame(rows).groupby(list(rows[0])[:-1])["published"]
    return table.agg("; ".join).reset_index()


if __name__ == "__main__":
    main()
