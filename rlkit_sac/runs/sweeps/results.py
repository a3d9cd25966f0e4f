"""What a sweep leaves in its folder: a table, the best setting, figures."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
from optuna.trial import FrozenTrial, TrialState

from rlkit_sac.analysis import write_table
from rlkit_sac.config.yaml_file import to_yaml
from rlkit_sac.runs.files import os_errors_named, write_atomically
from rlkit_sac.runs.sweeps.study import Sweep, describe_params, number_of
from rlkit_sac.runs.tables.report import summary_table


def write_results(sweep: Sweep) -> bool:
    """Write ``trials.csv``, ``best.yaml`` and figures, and print where they are.

    Args:
        sweep: with its trials so far.

    Returns:
        Whether a trial finished; without one there is no best setting.
    """
    trials = sweep.trials()
    table = sweep.folder / "trials.csv"
    with os_errors_named(f"cannot write {table}"):
        write_table(pd.DataFrame(map(_row, trials)), table)
    lines = {"trials": str(table)}
    finished = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    if finished:
        best = sweep.study.best_trial
        file = sweep.folder / "best.yaml"
        options = dataclasses.asdict(sweep.space.configure(sweep.config, best.params))
        del options["resume"]
        text = f"# Trial {number_of(best)} of the sweep: mean return {best.value:.6g} at its end.\n"
        write_atomically(file, (text + to_yaml(options)).encode())
        lines["best"] = f"{best.value:.6g}, trial {number_of(best)}: {file}"
        lines["its options"] = describe_params(best.params)
        if default := [trial for trial in finished if number_of(trial) == 0]:
            lines["default"] = f"{default[0].value:.6g}, trial 0"
    if figures := _write_figures(sweep, len(finished)):
        lines["figures"] = ", ".join(map(str, figures))
    print(f"\n{summary_table(lines)}", flush=True)
    return bool(finished)


def _row(trial: FrozenTrial) -> dict[str, Any]:
    """The row of ``trials.csv``; a pruned trial has the value of its last evaluation."""
    state = trial.state
    return {
        "trial": number_of(trial),
        "state": state.name.lower() if state.is_finished() else "unfinished",
        "value": trial.value,
        "frames": trial.user_attrs.get("frames"),
        "seconds": trial.duration.total_seconds() if trial.duration else None,
        "run": trial.user_attrs.get("run"),
        "error": trial.user_attrs.get("error"),
        **trial.params,
    }


def _write_figures(sweep: Sweep, finished: int) -> list[Path]:
    """History, importance and parallel coordinates, of two trials or more."""
    if finished < 2 or find_spec("matplotlib") is None:
        return []
    from matplotlib import pyplot
    from optuna.visualization import matplotlib as plots

    pyplot.switch_backend("agg")
    written = []
    for name, plot in (
        ("history", plots.plot_optimization_history),
        ("importance", plots.plot_param_importances),
        ("parallel_coordinates", plots.plot_parallel_coordinate),
    ):
        # Of trials that are too few or all the same, or on a full disk.
        with suppress(ValueError, RuntimeError, OSError):
            plot(sweep.study)
            pyplot.gcf().set_size_inches(12, 5)
            pyplot.savefig(file := sweep.folder / f"{name}.png", dpi=120, bbox_inches="tight")
            written.append(file)
        pyplot.close("all")
    return written
