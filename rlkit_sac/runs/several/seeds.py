"""One configuration run with several seeds, with a joint table and figure at the end."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
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
from rlkit_sac.runs.several.options import SeveralOptions
from rlkit_sac.runs.several.processes import Job, run_jobs
from rlkit_sac.runs.stop import TIME_LIMIT_CODE
from rlkit_sac.runs.tables.report import summary_table


def run_seeds(main: Callable[[Any], Path], config: Any, options: SeveralOptions) -> int:
    """Call ``main`` once for each seed, then compare the runs that finished.

    A seed that fails does not stop the others; only after a `ConfigError` no further seed is
    started, as it would be refused too. A signal ends all of them, and the report covers those that
    had finished, if any. What one of several jobs prints is shown when it ends.

    Args:
        main: the recipe, a function that other processes can import; it returns the run directory.
        config: its configuration, checked; the field ``seed`` is set for each run.
        options: the seeds, and how many run at a time.

    Returns:
        The exit code: 0 if all finished, 128 plus the signal that ended them, 2 if all failed by
        a `ConfigError`, 75 if some reached their ``time_limit`` and the others finished, else 1.
    """
    started = datetime.now().astimezone()
    seeds = options.numbers()
    waiting = list(seeds)
    with tempfile.TemporaryDirectory(prefix="rlkit_sac-") as folder:

        def next_seed() -> _SeedRun | None:
            if not waiting:
                return None
            seed = waiting.pop(0)
            print(f"seed {seed}: started ({len(seeds) - len(waiting)} of {len(seeds)})", flush=True)
            log = Path(folder, f"{seed}.log") if options.jobs > 1 else None
            return _SeedRun(main, dataclasses.replace(config, seed=seed), log)

        runs, interrupt = run_jobs(next_seed, options.jobs, "seed")
    runs.sort(key=lambda run: seeds.index(run.seed))
    if finished := [Path(run.path) for run in runs if run.path]:
        name = f"{started:%Y-%m-%d_%H-%M-%S}-seeds{(options.seeds or '')[:100]}"
        print(f"\n{report_seeds(finished, name)}", flush=True)
    for line in dict.fromkeys(line for run in runs for line in run.problems()):
        print(line, file=sys.stderr)
    codes = {run.exit_code for run in runs}
    if waiting and codes != {2}:
        print(f"not started: {', '.join(map(str, waiting))}", file=sys.stderr)
    return interrupt or (max(codes) if codes <= {0, TIME_LIMIT_CODE} or codes == {2} else 1)


class _SeedRun(Job):
    def __init__(self, main: Callable[[Any], Path], config: Any, log: Path | None) -> None:
        super().__init__(main, config, log)
        self.seed, self._log = config.seed, log

    def _ending(self) -> str:
        if self.exit_code > 128 or self.exit_code == TIME_LIMIT_CODE:
            return "interrupted"
        return "failed" if self.exit_code else "finished"

    def end(self) -> None:
        """Say how it ended, and what it has printed."""
        super().end()
        output = self._log.read_text("utf-8", "replace").rstrip() if self._log else ""
        print(f"\nseed {self.seed}: {self._ending()}\n{output}", flush=True)

    def problems(self) -> list[str]:
        """Lines about a run that has not finished."""
        if self._ending() == "interrupted":
            return [f"seed {self.seed}: interrupted"]
        lines = self.error.splitlines()
        if self.exit_code == 2:  # the configuration's fault, the same for all
            return [f"error: {line}" for line in lines]
        return [f"error: seed {self.seed}: {'; '.join(lines)}"] if lines else []


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
    text, places = list[str](), dict[str, str]()
    try:
        data = load_runs(runs)
        if data.empty:
            return "the runs have no evaluations to compare"
        folder = make_new_folder(runs[0].parent, name)
        seeds = data.sort_values("frames").groupby("run").tail(1).sort_values("seed")
        seeds = seeds[["seed", "frames", "return_mean", "return_std", "run"]]
        write_table(seeds, folder / "seeds.csv")
        text.append(markdown_table(seeds.drop(columns="run")))
        places["seeds"] = str(folder / "seeds.csv")
        table = final_performance(data)
        for suffix in (".csv", ".md"):
            write_table(table, folder / f"final_performance{suffix}")
        text.append(markdown_table(table.drop(columns=["task", "recipe"])))
        places["final performance"] = str(folder / "final_performance.md")
        plot_learning_curves(data, path=folder / "learning_curve.png")
        places["learning curve"] = str(folder / "learning_curve.png")
    except (RlkitSacError, OSError) as error:
        text.append(str(error))
    return "\n".join([*text, summary_table(places)] if places else text)
