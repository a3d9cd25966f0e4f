"""A sweep: trials run in processes until there are enough, then a table and the best options."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import subprocess
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import optuna
import pandas as pd
from filelock import FileLock
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.pruners import HyperbandPruner, MedianPruner, NopPruner
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from rlkit_sac.analysis import write_table
from rlkit_sac.config.options import Option, config_errors, options_of, read_value, without_limits
from rlkit_sac.config.read import read_yaml, to_yaml, unknown_option
from rlkit_sac.config.run import SeveralOptions
from rlkit_sac.errors import ConfigError, RunError, refuse, summary
from rlkit_sac.output import summary_table
from rlkit_sac.runs.directory import file_name, read_evaluations
from rlkit_sac.runs.files import os_errors_named, write_atomically
from rlkit_sac.runs.seeds import Processes
from rlkit_sac.signals import on_signals

#: Seconds without a sign of life after which a trial of another process counts as killed.
GRACE_PERIOD = 60

#: How often a trial that was killed or interrupted begins anew, as that may be its fault.
MOST_RETRIES = 10

# Options that may differ between those who work on one study.
_OF_MACHINE = ("device", "num_threads", "resume")
_SAME_IN_ALL = ("seed", "resume", "time_limit", "evaluation", "logging", "checkpoint")

Distribution = CategoricalDistribution | FloatDistribution | IntDistribution


def run_sweep(config: Any, options: SeveralOptions, argv: Sequence[str]) -> int:
    """Search for better options of a recipe: run trials, keep the best.

    The first trial runs the configuration as it is. A trial's value is the mean return of its last
    evaluation. A signal ends the running trials; the same command then begins them anew, and so it
    does after this process was killed. Several processes may run it at once, and each ends when all
    trials have ended.

    Args:
        config: of the recipe, checked.
        options: what to search and how; ``trials`` is set.
        argv: the arguments of this process.

    Returns:
        The exit code: 0, or 1 if no trial finished, or 128 plus the signal that ended it.

    Raises:
        ConfigError: for a wrong search space or storage, and if a trial ends with one.
        RunError: if the results cannot be written.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    script = Path(inspect.getfile(type(config)))
    own_space = script.parent / "spaces" / f"{script.stem}.yaml"
    space = read_space(Path(options.space or own_space), config)
    name = file_name(options.study or f"{script.stem}-{config.env.id}")
    folder = Path(config.logging.dir) / "sweeps" / name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of Optuna, about parts of it that may change
        study = open_study(folder, name, config, space, options)
        print(f"sweep {name}: results in {folder}", flush=True)
        trials = _Trials(config, space, folder, Processes(config, argv, "trial"), options)
        with on_signals(trials.processes.receive):
            trials.run(study)
        found = write_results(study, config, folder)
    if trials.refusal:
        raise ConfigError(trials.refusal)
    if trials.processes.received:
        print("the same command goes on with this sweep", flush=True)
        return 128 + trials.processes.received
    return int(not found)


@dataclasses.dataclass
class _Trials:
    """Runs the trials of a study, as others may do at the same time.

    A trial that was killed or interrupted is failed, and begins anew as another one; they count as
    one.
    """

    config: Any
    space: Mapping[str, Distribution]
    folder: Path
    processes: Processes
    options: SeveralOptions
    refusal: str = ""
    interrupted: set[int] = dataclasses.field(default_factory=set)

    def run(self, study: Study) -> None:
        """Run trials until all have ended, or a signal or an error ends the sweep."""
        while not (self.processes.received or self.refusal):
            optuna.storages.fail_stale_trials(study)
            if missing := self.missing(study):
                self.seed_sampler(study)
                study.optimize(
                    self.value,
                    missing,
                    n_jobs=self.options.jobs,
                    catch=RunError,
                    callbacks=[self.ended],
                )
            elif any(trial.state == TrialState.RUNNING for trial in study.trials):
                time.sleep(1)  # another process runs them
            else:
                return

    def missing(self, study: Study) -> int:
        """How many trials are still to begin."""
        trials = study.get_trials(deepcopy=False)
        again = [trial for trial in trials if "retry_history" in trial.system_attrs]
        waiting = [trial for trial in trials if trial.state == TrialState.WAITING]
        begun = len(trials) - len(again) - sum(trial not in again for trial in waiting)
        return max(0, (self.options.trials or 0) - begun) + sum(each in again for each in waiting)

    def seed_sampler(self, study: Study) -> None:
        """Give the next trial a sampler with a seed of its own.

        Before and after an interruption, and in two who begin at once, no draw comes twice.
        """
        begun = sum("retry_history" not in trial.system_attrs for trial in study.trials)
        seed = np.random.SeedSequence((self.config.seed, begun)).generate_state(1)[0]
        study.sampler = optuna.samplers.TPESampler(
            seed=int(seed), multivariate=True, constant_liar=True
        )

    def value(self, trial: Trial) -> float:
        """Run a trial in a process of its own, and report its evaluations to Optuna."""
        params = {key: _suggest(trial, key, each) for key, each in self.space.items()}
        print(f"trial {trial.number}: {describe_params(params)}", flush=True)
        folder = self.folder / f"trial_{trial.number:04d}"
        folder.mkdir(exist_ok=True)
        interval, last = self.config.evaluation.interval, self.config.collector.total_frames
        rows: list[tuple[int, float]] = []
        is_pruned = False

        def watch(process: subprocess.Popen[bytes]) -> None:
            nonlocal is_pruned
            table = read_evaluations(next(folder.glob("*/*/*"), folder))
            found = list(zip(table["frames"].tolist(), table["return_mean"].tolist(), strict=True))
            for frames, value in found[len(rows) :]:
                rows.append((frames, value))
                step = frames // interval * interval  # of batches that end in between too
                trial.report(value, step)
                if not is_pruned and frames < last and trial.should_prune():
                    is_pruned = True
                    process.terminate()  # it saves and ends

        texts = {key: v if isinstance(v, str) else json.dumps(v) for key, v in params.items()}
        ended = self.processes.run(texts | {"logging.dir": folder}, folder / "output.log", watch)
        trial.set_user_attr("frames", rows[-1][0] if rows else 0)
        trial.set_user_attr("run", str(next(folder.glob("*/*/*"), folder)))
        trial.set_user_attr("error", ended.error)
        if ended.code == 0 and rows:
            return rows[-1][1]
        if ended.is_interrupted and is_pruned:
            raise optuna.TrialPruned
        if ended.is_interrupted:
            self.interrupted.add(trial.number)
        elif ended.code == 2:
            self.refusal = ended.error
        raise RunError(ended.error)

    def ended(self, study: Study, trial: FrozenTrial) -> None:
        """Print how a trial ended, and see to what comes next."""
        error = trial.user_attrs.get("error", "")
        result = f"{trial.value:.6g}" if trial.value is not None else error.partition("\n")[0]
        print(f"trial {trial.number}: {trial.state.name.lower()}, {result}", flush=True)
        if trial.number in self.interrupted:
            trial.user_attrs = {}  # which are those of this attempt
            RetryHeartbeatStaleTrialCallback(MOST_RETRIES)(study, trial)
        self.seed_sampler(study)
        if self.processes.received or self.refusal or not self.missing(study):
            study.stop()


def _suggest(trial: Trial, key: str, of: Distribution) -> Any:
    if isinstance(of, CategoricalDistribution):
        return trial.suggest_categorical(key, of.choices)
    if isinstance(of, IntDistribution):
        return trial.suggest_int(key, of.low, of.high, step=of.step, log=of.log)
    return trial.suggest_float(key, of.low, of.high, step=of.step, log=of.log)


def open_study(
    folder: Path, name: str, config: Any, space: Mapping[str, Distribution], options: SeveralOptions
) -> Study:
    """Make the study of a sweep, or find it, and let its first trial wait.

    Args:
        folder: of the sweep; made where missing.
        name: of the study in its storage.
        config: of the recipe.
        space: what the trials change.
        options: its storage and its pruner.

    Raises:
        ConfigError: if the storage cannot be opened, or the study has another space or options.
    """
    own = options_of(config)
    values = {
        key: option.value
        for key, option in own.items()
        if key not in _OF_MACHINE and not key.startswith("logging.")
    }
    default = {key: encode(own[key].value) for key in space}
    to_json = optuna.distributions.distribution_to_json
    values |= {key: to_json(each) for key, each in space.items()}
    frames = config.collector.total_frames
    pruners = {
        "none": NopPruner(),
        "median": MedianPruner(n_startup_trials=5, n_warmup_steps=frames // 5),
        "hyperband": HyperbandPruner(min(config.evaluation.interval, frames), frames),
    }
    place = "--storage" if options.storage else folder / "study.db"  # a URL may hold a password
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):  # one makes the study, the others find it
            study = optuna.create_study(
                study_name=name,
                storage=RDBStorage(
                    options.storage or f"sqlite:///{place}",
                    heartbeat_interval=1,
                    grace_period=GRACE_PERIOD,
                    heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(MOST_RETRIES),
                ),
                direction="maximize",
                pruner=pruners[options.pruner],
                load_if_exists=True,
            )
            if not study.user_attrs:
                study.set_user_attr("options", values)
            study.enqueue_trial(default, skip_if_exists=True)
        noted = study.user_attrs["options"]
    except Exception as error:  # any error that wrong content of a database can cause
        raise ConfigError(
            f"cannot open the storage of the sweep ({place}): {summary(error)}"
        ) from error
    if differing := [key for key in {**noted, **values} if noted.get(key) != values.get(key)]:
        raise ConfigError(
            f"the study {name} has another value or space of {', '.join(differing[:3])}: name a "
            "new one, --study NAME"
        )
    return study


def read_space(file: Path, config: Any) -> dict[str, Distribution]:
    """Read a search space and check it against the options of a recipe.

    The file maps options to ``{low, high}``, with ``log: true`` or a ``step`` if wanted, or to
    ``{choices: [...]}``. The configuration's own value must be among them, since the first trial
    runs it.

    Args:
        file: a YAML file.
        config: of the recipe, without errors.

    Returns:
        What Optuna draws from, by dotted key; lists and mappings are JSON texts.

    Raises:
        ConfigError: with a line for each problem.

    >>> import tempfile
    >>> from rlkit_sac.runs import RunConfig
    >>> file = Path(tempfile.mkdtemp()) / "space.yaml"
    >>> _ = file.write_text("update.lr_actor: {low: 1e-5, high: 1e-2, log: true}")
    >>> read_space(file, RunConfig())
    {'update.lr_actor': FloatDistribution(high=0.01, log=True, low=1e-05, step=None)}
    """
    options = options_of(config)
    settings = read_yaml(file, config)
    problems = [] if settings else [f"{file}: names no option"]
    space: dict[str, Distribution] = {}
    for setting in settings:
        key = setting.key
        if key not in options:
            problems.append(f"{setting.where}: {unknown_option(key, options)}")
            continue
        try:
            if {key, key.partition(".")[0]} & set(_SAME_IN_ALL):
                raise ValueError("is the same in all trials: take it out")
            space[key] = _distribution(setting.value, options[key])
        except (TypeError, ValueError) as error:
            problems.append(f"{setting.where}: {error}")
            continue
        problems += [
            f"{setting.where}: {'' if name == key else f'{name}: '}{text}"
            for value in _limits(space[key])
            for name, text in config_errors(configure(config, {key: value}))
        ]
    refuse(list(dict.fromkeys(problems)))
    return space


def _distribution(given: Any, option: Option) -> Distribution:
    """What Optuna draws the values of an option from."""
    own = encode(option.value)
    is_number = isinstance(own, int | float) and not isinstance(own, bool)
    found: Distribution
    match given:
        case {"choices": [_, *_] as choices}:
            values = [encode(read_value(value, option.hint)) for value in choices]
            found, is_inside = CategoricalDistribution(values), own in values
        case {"low": _, "high": _} if is_number:
            is_float = float in {hint := without_limits(option.hint), *get_args(hint)}
            number = float if is_float else int
            limits = {k: read_value(v, bool if k == "log" else number) for k, v in given.items()}
            found = (FloatDistribution if is_float else IntDistribution)(**limits)
            is_inside = found.low <= own <= found.high
        case _:
            ranges = "{low: ..., high: ...}, with log: true or step: ..., or " if is_number else ""
            raise ValueError(f"expected {ranges}{{choices: [...]}}, got {given!r}")
    if not is_inside:
        text = f"must hold the value of the configuration itself, {option.value!r}"
        raise ValueError(f"{text}, which the first trial runs")
    return found


def _limits(distribution: Distribution) -> Sequence[Any]:
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices
    return distribution.low, distribution.high


def encode(value: Any) -> Any:
    """The value of an option as Optuna can store it: lists and mappings become JSON texts."""
    return json.dumps(value) if isinstance(value, list | dict) else value


def configure(config: Any, params: Mapping[str, Any]) -> Any:
    """A copy of a configuration with the options of a trial.

    Args:
        config: of the recipe.
        params: of the trial, by dotted key.

    >>> from rlkit_sac.runs import RunConfig
    >>> configure(RunConfig(), {"network.num_cells": "[64]"}).network.num_cells
    [64]
    """
    config = copy.deepcopy(config)
    options = options_of(config)
    for key, value in params.items():
        is_json = isinstance(value, str) and value.startswith(("[", "{"))
        setattr(options[key].section, options[key].name, json.loads(value) if is_json else value)
    return config


def write_results(study: Study, config: Any, folder: Path) -> bool:
    """Write ``trials.csv`` and ``best.yaml``, and print where they are.

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


def describe_params(params: Mapping[str, Any]) -> str:
    """The options of a trial in one line.

    >>> describe_params({"update.lr_actor": 0.00031234, "compile": False})
    'update.lr_actor 0.000312, compile False'
    """
    texts = [f"{v:.3g}" if isinstance(v, float) else str(v) for v in params.values()]
    return ", ".join(f"{key} {text}" for key, text in zip(params, texts, strict=True))
