"""A sweep: trials run in processes until there are enough, then tables and figures."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from multiprocessing import connection
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import OptunaError
from optuna.trial import TrialState
from sqlalchemy.exc import SQLAlchemyError

from rlkit_sac.errors import ConfigError, RunError, summary
from rlkit_sac.runs.interrupts import acknowledge
from rlkit_sac.runs.sweeps.options import SweepOptions
from rlkit_sac.runs.sweeps.results import write_results
from rlkit_sac.runs.sweeps.space import find_space, read_space, recipe_script
from rlkit_sac.runs.sweeps.study import Sweep, describe_params, number_of
from rlkit_sac.runs.sweeps.trial import RunningTrial
from rlkit_sac.signals import held_signals, on_signals

_POLL = 1.0  # seconds between two looks at the evaluations


def run_sweep(main: Callable[[Any], Path], config: Any, options: SweepOptions) -> int:
    """Search for better options of a recipe: run trials, keep the best.

    The first trial runs the configuration as it is. A trial's value is the mean return of its last
    evaluation. A signal ends the running trials, which save; the same command then goes on with
    them, and so it does after this process was killed. Several processes may run it at once, and
    each ends when all trials have ended.

    Args:
        main: the recipe, a function that other processes can import.
        config: its configuration, checked.
        options: what to search and how; ``trials`` is set.

    Returns:
        The exit code: 0, or 1 if no trial finished, or 128 plus the signal that ended it.

    Raises:
        ConfigError: for a wrong search space or storage, and if a trial ends with one.
        RunError: if the storage fails later, or the results cannot be written.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", "Heartbeat of storage is supposed to be used")
        warnings.filterwarnings("ignore", "Attempting to set identical")  # limits of a figure
        space = read_space(find_space(options.space, type(config)), config)
        own_name = f"{recipe_script(type(config)).stem}-{config.env.id}"
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", options.study or own_name).lstrip(".") or own_name
        folder = Path(config.logging.dir) / "sweeps" / name
        sweep = Sweep(folder, name, options.storage, space, config, options.pruner)
        print(f"sweep {name}: results in {folder}", flush=True)
        try:
            signal, error = _run_trials(main, sweep, options)
            found = write_results(sweep)
        except (SQLAlchemyError, OptunaError) as failure:
            raise RunError(
                f"the storage of the sweep ({sweep.place}) has failed: {summary(failure)}; the "
                "same command goes on with it"
            ) from failure
        if error:
            raise ConfigError(error)
        if signal:
            print("the same command goes on with this sweep", flush=True)
        return 128 + signal if signal else 0 if found else 1


def _run_trials(
    main: Callable[[Any], Path], sweep: Sweep, options: SweepOptions
) -> tuple[int, str]:
    """Run trials until there are enough; the signal that ended it, or the `ConfigError`."""
    assert options.trials is not None
    running: list[RunningTrial] = []
    received: list[int] = []
    refused = ""

    def end_all() -> None:
        for trial in running:
            trial.process.terminate()

    def pass_on(number: int) -> None:
        if not received:
            acknowledge("each trial after its step")
        received.append(number)
        end_all()

    with on_signals(pass_on):
        try:
            while running or not (received or refused):
                for trial in running:
                    trial.watch()
                total, not_ended = sweep.open_trials()
                if total >= options.trials and not not_ended:
                    break
                while len(running) < options.jobs and not (received or refused):
                    with held_signals():  # so that pass_on cannot miss the new process
                        asked = sweep.ask(options.trials)
                        if asked is None:
                            break
                        trial = RunningTrial(main, sweep, asked)
                        trial.process.start()
                        running.append(trial)
                    print(f"trial {trial.number}: {describe_params(asked.params)}", flush=True)
                connection.wait([each.process.sentinel for each in running], timeout=_POLL)
                for trial in [each for each in running if each.process.exitcode is not None]:
                    running.remove(trial)
                    error = trial.end()
                    _report(sweep, trial.number, options.trials, error)
                    if trial.process.exitcode == 2:
                        refused = refused or error
                        end_all()
        finally:
            for trial in running:  # none, unless this function failed
                trial.process.terminate()
                trial.process.join()
    return received[0] if received else 0, refused


def _report(sweep: Sweep, number: int, most: int, error: str) -> None:
    """Print how a trial ended."""
    trials = {number_of(trial): trial for trial in sweep.trials()}
    ended = sum(each.state.is_finished() for each in trials.values())
    trial = trials[number]
    text = trial.state.name.lower() if trial.state.is_finished() else "to be run again"
    if trial.state in (TrialState.COMPLETE, TrialState.PRUNED) and trial.value is not None:
        text += f", {trial.value:.6g}"
    elif error and not error.startswith("Interrupted"):
        text += f", {error.splitlines()[0]}"
    print(f"trial {number}: {text} ({ended} of {most})", flush=True)
