"""One configuration run with several seeds, with a joint table and figure at the end."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rlkit_sac.analysis import (
    final_performance,
    load_runs,
    markdown_table,
    plot_learning_curves,
    write_table,
)
from rlkit_sac.errors import RlkitSacError
from rlkit_sac.runs.files import make_new_folder
from rlkit_sac.runs.interrupts import TIME_LIMIT_CODE
from rlkit_sac.runs.seeds.on_ray import run_on_ray
from rlkit_sac.runs.seeds.options import SeedOptions
from rlkit_sac.runs.seeds.processes import SeedRun, run_in_processes, run_seed
from rlkit_sac.runs.tables.report import summary_table


def run_seeds(main: Callable[[Any], Path], config: Any, options: SeedOptions) -> int:
    """Call ``main`` once for each seed, then compare the runs that finished.

    A seed that fails does not stop the others; only after a `ConfigError` no further seed is
    started, as it would be refused too. A signal ends all of them, and the report covers those that
    had finished, if any. With one job the runs share this process, with several each
    has its own, here or on the machines of a Ray cluster; the results are the same.

    Args:
        main: the recipe; it returns the run directory.
        config: its configuration, checked; the field ``seed`` is set for each run.
        options: the seeds, and how many run at a time.

    Returns:
        The exit code: 0 if all finished, 128 plus the signal that ended them, 2 if all failed by
        a `ConfigError`, 75 if some reached their ``time_limit`` and the others finished, else 1.

    >>> from rlkit_sac.errors import RunError
    >>> Config = dataclasses.make_dataclass("Config", [("seed", int)])
    >>> def main(config):
    ...     raise RunError(f"reward is NaN at frame {config.seed}")
    >>> run_seeds(main, Config(0), SeedOptions(seeds="5,6"))
    seed 5 (1 of 2)
    <BLANKLINE>
    seed 6 (2 of 2)
    1
    """
    started = datetime.now().astimezone()
    seeds = options.numbers()
    configs = [dataclasses.replace(config, seed=seed) for seed in seeds]
    if options.launcher == "ray":
        address = getattr(getattr(config, "workers", None), "address", None)
        runs, interrupt = run_on_ray(main, configs, options.jobs, address=address)
    elif options.jobs == 1:
        runs, interrupt = _one_after_another(main, configs)
    else:
        runs, interrupt = run_in_processes(main, configs, options.jobs)
    runs.sort(key=lambda run: seeds.index(run.seed))
    finished = [Path(run.path) for run in runs if run.exit_code == 0 and run.path]
    if finished:
        name = f"{started:%Y-%m-%d_%H-%M-%S}-seeds{(options.seeds or '')[:100]}"
        print(f"\n{report_seeds(finished, name)}", flush=True)
    for line in _errors(runs, seeds):
        print(line, file=sys.stderr)
    codes = {run.exit_code for run in runs}
    if interrupt or codes == {2}:
        return interrupt or 2
    return max(codes) if codes <= {0, TIME_LIMIT_CODE} else 1


def _one_after_another(
    main: Callable[[Any], Path], configs: Sequence[Any]
) -> tuple[list[SeedRun], int]:
    runs: list[SeedRun] = []
    for number, config in enumerate(configs, 1):
        space = "\n" if runs else ""
        print(f"{space}seed {config.seed} ({number} of {len(configs)})", flush=True)
        runs.append(run_seed(main, config))
        if runs[-1].exit_code > 128:
            return runs, runs[-1].exit_code
        if runs[-1].exit_code == 2:
            break
    return runs, 0


def _errors(runs: Sequence[SeedRun], seeds: Sequence[int]) -> list[str]:
    """The lines about seeds that did not finish."""
    if {run.exit_code for run in runs} == {2}:  # the configuration's fault, the same for all
        once = dict.fromkeys(line for run in runs for line in run.error.splitlines())
        return [f"error: {line}" for line in once]
    lines = []
    for run in runs:
        if run.ending == "interrupted":
            lines.append(f"seed {run.seed}: interrupted")
        elif run.ending == "failed":
            lines.append(f"error: seed {run.seed}: {'; '.join(run.error.splitlines())}")
    not_started = [str(seed) for seed in seeds if seed not in {run.seed for run in runs}]
    return lines + ([f"not started: {', '.join(not_started)}"] if not_started else [])


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
