"""One configuration run with several seeds, with one report of all of them at the end."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rlkit_sac.runs.seeds.one_run import SeedRun, run_seed
from rlkit_sac.runs.seeds.options import SeedOptions
from rlkit_sac.runs.seeds.processes import run_in_processes
from rlkit_sac.runs.seeds.report import report_seeds


def run_seeds(main: Callable[[Any], Path], config: Any, options: SeedOptions) -> int:
    """Call ``main`` once for each seed, then compare the runs that finished.

    A seed that fails does not stop the others; only after a `ConfigError` no further seed is
    started, as it would be refused too. Ctrl-C and SIGTERM end all of them, and the report covers
    those that had finished, if any. With one job the runs share this process, with several each
    has its own; the results are the same.

    Args:
        main: the recipe; it returns the run directory.
        config: its configuration, checked; the field ``seed`` is set for each run.
        options: the seeds, and how many run at a time.

    Returns:
        The exit code: 0 if all finished, 128 plus the signal that ended them, 2 if all failed by
        a `ConfigError`, else 1.

    >>> from rlkit_sac.errors import RunError
    >>> Config = dataclasses.make_dataclass("Config", [("seed", int)])
    >>> def main(config):
    ...     raise RunError(f"reward is NaN at frame {config.seed}")
    >>> run_seeds(main, Config(0), SeedOptions((5, 6), "5,6"))
    seed 5 (1 of 2)
    <BLANKLINE>
    seed 6 (2 of 2)
    1
    """
    started = datetime.now().astimezone()
    configs = [dataclasses.replace(config, seed=seed) for seed in options.seeds]
    if options.jobs == 1:
        runs, interrupt = _one_after_another(main, configs)
    else:
        runs, interrupt = run_in_processes(main, configs, options.jobs)
    runs.sort(key=lambda run: options.seeds.index(run.seed))
    finished = [Path(run.path) for run in runs if run.exit_code == 0 and run.path]
    if finished:
        name = f"{started:%Y-%m-%d_%H-%M-%S}-seeds{options.text[:100]}"
        print(f"\n{report_seeds(finished, name)}", flush=True)
    for line in _errors(runs, options.seeds):
        print(line, file=sys.stderr)
    codes = {run.exit_code for run in runs}
    return interrupt or (2 if codes == {2} else int(codes != {0}))


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
