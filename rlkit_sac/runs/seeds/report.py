"""The joint table and figure of several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlkit_sac.analysis import (
    final_performance,
    load_runs,
    markdown_table,
    plot_learning_curves,
    write_table,
)
from rlkit_sac.errors import RlkitSacError
from rlkit_sac.runs.files import make_new_folder
from rlkit_sac.runs.tables.progress import summary_table


def report_seeds(runs: Sequence[Path], name: str) -> str:
    """Compare runs that differ in their seed, in a folder beside them.

    The folder gets ``seeds.csv`` with the last evaluation of each run, ``final_performance.csv``
    and ``.md`` with the statistics over the runs, and ``learning_curve.png``. Without the extra
    ``plots`` the latter are left out, and the description says how to get them.

    Args:
        runs: directories of finished runs.
        name: name of the folder; a number is added if it exists.

    Returns:
        The text to print.
    """
    try:
        data = load_runs(runs)
        if data.empty:
            return "the runs have no evaluations to compare"
        folder = make_new_folder(runs[0].parent, name)
        seeds = data.sort_values("frames").groupby("run").tail(1).sort_values("seed")
        seeds = seeds[["seed", "frames", "return_mean", "return_std", "run"]]
        write_table(seeds, folder / "seeds.csv")
    except (RlkitSacError, OSError) as error:
        return str(error)
    paths = {"seeds": folder / "seeds.csv"}
    text = [markdown_table(seeds.drop(columns="run"))]
    missing = []
    try:
        table = final_performance(data)
        for suffix in (".csv", ".md"):
            write_table(table, folder / f"final_performance{suffix}")
        text.append(markdown_table(table.drop(columns=["task", "recipe"])))
        paths["final performance"] = folder / "final_performance.md"
    except (RlkitSacError, OSError) as error:
        missing.append(str(error))
    try:
        plot_learning_curves(data, path=folder / "learning_curve.png")
        paths["learning curve"] = folder / "learning_curve.png"
    except (RlkitSacError, OSError) as error:
        missing.append(str(error))
    places = summary_table({label: str(path) for label, path in paths.items()})
    return "\n".join([*text, places, *dict.fromkeys(missing)])
