"""What a sweep leaves in its folder: a table, the best setting, figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from rlkit_sac.analysis import write_table
from rlkit_sac.config.read import to_yaml
from rlkit_sac.runs.files import os_errors_named, write_atomically
from rlkit_sac.runs.several.space import configure
from rlkit_sac.runs.tables.report import summary_table


def write_results(study: Study, config: Any, folder: Path) -> bool:
    """Write ``trials.csv``, ``best.yaml`` and figures, and print where they are.

    Args:
        study: of the sweep.
        config: of the recipe, as it is for the first trial.
        folder: of the sweep.

    Returns:
        Whether a trial finished; without one there is no best setting.
    """
    trials, table = study.get_trials(deepcopy=False), folder / "trials.csv"
    with os_errors_named(f"cannot write {table}"):
        write_table(pd.DataFrame(map(_row, trials)), table)
    lines = {"trials": str(table)}
    finished = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    if finished:
        best, file = study.best_trial, folder / "best.yaml"
        options = dataclasses.asdict(configure(config, best.params))
        del options["resume"]
        text = f"# Trial {best.number} of the sweep: mean return {best.value:.6g} at its end.\n"
        write_atomically(file, (text + to_yaml(options)).encode())
        lines["best"] = f"{best.value:.6g}, trial {best.number}: {file}"
        lines["its options"] = describe_params(best.params)
        if default := [trial for trial in finished if trial.params == trials[0].params]:
            lines["default"] = f"{default[0].value:.6g}, trial {default[0].number}"
    if figures := _write_figures(study, folder, len(finished)):
        lines["figures"] = ", ".join(map(str, figures))
    print(f"\n{summary_table(lines)}", flush=True)
    return bool(finished)


def _row(trial: FrozenTrial) -> dict[str, Any]:
    """The row of ``trials.csv``; a pruned trial has the value of its last evaluation."""
    return {
        "trial": trial.number,
        "state": trial.state.name.lower(),
        "value": trial.value,
        "frames": trial.user_attrs.get("frames"),
        "seconds": trial.duration.total_seconds() if trial.duration else None,
        "run": trial.user_attrs.get("run"),
        "error": trial.user_attrs.get("error"),
        **trial.params,
    }


def _write_figures(study: Study, folder: Path, finished: int) -> list[Path]:
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
            plot(study)
            pyplot.gcf().set_size_inches(12, 5)
            pyplot.savefig(file := folder / f"{name}.png", dpi=120, bbox_inches="tight")
            written.append(file)
        pyplot.close("all")
    return written


def describe_params(params: Mapping[str, Any]) -> str:
    """The options of a trial in one line.

    >>> describe_params({"update.lr_actor": 0.00031234, "compile": False})
    'update.lr_actor 0.000312, compile False'
    """
    texts = [f"{v:.3g}" if isinstance(v, float) else str(v) for v in params.values()]
    return ", ".join(f"{key} {text}" for key, text in zip(params, texts, strict=True))
