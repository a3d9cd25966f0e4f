"""A sweep: trials run in processes until there are enough, then a table and figures."""

from __future__ import annotations

import inspect
import re
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import optuna
from filelock import FileLock
from optuna.distributions import distribution_to_json
from optuna.pruners import HyperbandPruner, MedianPruner, NopPruner
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.study import Study
from optuna.trial import Trial, TrialState

from rlkit_sac.config.flat import flat_config, options_of
from rlkit_sac.errors import ConfigError, summary
from rlkit_sac.runs.several.options import SeveralOptions
from rlkit_sac.runs.several.processes import Job, run_jobs
from rlkit_sac.runs.several.results import describe_params, write_results
from rlkit_sac.runs.several.space import Distribution, configure, encode, read_space
from rlkit_sac.runs.tables.evaluations import read_evaluations

#: Seconds without a sign of life after which a trial of another process counts as killed.
GRACE_PERIOD = 60

#: How often a trial that was killed or interrupted begins anew, as that may be its fault.
MOST_RETRIES = 10

# Options that may differ between those who work on one study.
_OF_MACHINE = ("device", "num_threads", "resume")


def run_sweep(main: Callable[[Any], Path], config: Any, options: SeveralOptions) -> int:
    """Search for better options of a recipe: run trials, keep the best.

    The first trial runs the configuration as it is. A trial's value is the mean return of its last
    evaluation. A signal ends the running trials; the same command then begins them anew, and so it
    does after this process was killed. Several processes may run it at once, and each ends when all
    trials have ended.

    Args:
        main: the recipe, a function that other processes can import.
        config: its configuration, checked.
        options: what to search and how; ``trials`` is set.

    Returns:
        The exit code: 0, or 1 if no trial finished, or 128 plus the signal that ended it.

    Raises:
        ConfigError: for a wrong search space or storage, and if a trial ends with one.
        RunError: if the results cannot be written.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of Optuna, about parts of it that may change
        script = Path(inspect.getfile(type(config)))
        own_space = script.parent / "spaces" / f"{script.stem}.yaml"
        space = read_space(Path(options.space or own_space), config)
        own_name = f"{script.stem}-{config.env.id}"
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", options.study or own_name).lstrip(".") or own_name
        folder = Path(config.logging.dir) / "sweeps" / name
        study = open_study(folder, name, config, space, options)
        print(f"sweep {name}: results in {folder}", flush=True)

        def next_trial() -> _TrialRun | None:
            trial = ask(study, space, config.seed, options.trials or 0, folder)
            return None if trial is None else _TrialRun(main, config, study, trial, folder)

        while True:
            ended, interrupt = run_jobs(next_trial, options.jobs, "trial")
            refused = [job.error for job in ended if job.exit_code == 2]
            trials = study.get_trials(deepcopy=False)
            if interrupt or refused or all(trial.state.is_finished() for trial in trials):
                break
            time.sleep(1)  # other processes run the rest
        found = write_results(study, config, folder)
        if refused:
            raise ConfigError(refused[0])
        if interrupt:
            print("the same command goes on with this sweep", flush=True)
        return interrupt or int(not found)


def open_study(
    folder: Path,
    name: str,
    config: Any,
    space: Mapping[str, Distribution],
    options: SeveralOptions,
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
    values = {
        key: value
        for key, value in flat_config(config).items()
        if key not in _OF_MACHINE and not key.startswith("logging.")
    }
    default = {key: encode(options_of(config)[key].value) for key in space}
    values |= {key: distribution_to_json(each) for key, each in space.items()}
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


def ask(
    study: Study, space: Mapping[str, Distribution], seed: int, most: int, folder: Path
) -> Trial | None:
    """The next trial, unless there are as many as there shall be.

    A trial that was killed or interrupted is failed, and begins anew as another one; they count as
    one. The sampler is made anew for each, with a seed of its own: of two who begin at once, or
    before and after an interruption, none draws what the other has drawn.

    Args:
        study: of the sweep.
        space: what its trials change.
        seed: of the sweep.
        most: how many trials there shall be.
        folder: of the sweep.
    """
    optuna.storages.fail_stale_trials(study)
    with FileLock(folder / ".lock"):  # two who ask at once get no trial too many
        trials = study.get_trials(deepcopy=False)
        begun = sum("retry_history" not in trial.system_attrs for trial in trials)
        if begun >= most and all(trial.state != TrialState.WAITING for trial in trials):
            return None
        sampler_seed = np.random.SeedSequence((seed, begun)).generate_state(1)[0]
        study.sampler = optuna.samplers.TPESampler(
            seed=int(sampler_seed), multivariate=True, constant_liar=True
        )
        return study.ask(dict(space))


class _TrialRun(Job):
    """The run of a trial, which reports its evaluations to Optuna."""

    def __init__(
        self, main: Callable[[Any], Path], config: Any, study: Study, trial: Trial, folder: Path
    ) -> None:
        self._study, self._trial = study, trial
        self._beat()
        self._folder = folder / f"trial_{trial.number:04d}"
        self._folder.mkdir(exist_ok=True)
        self._interval, self._frames = config.evaluation.interval, config.collector.total_frames
        self._reported, self._pruned = 0, False
        config = configure(config, trial.params)
        config.logging.dir = str(self._folder)
        super().__init__(main, config, self._folder / "output.log")
        print(f"trial {trial.number}: {describe_params(trial.params)}", flush=True)

    def watch(self) -> None:
        """Report new evaluations, and end a trial that is to be pruned: it saves and ends."""
        self._beat()
        rows = self._evaluations()
        for frames, value in rows[self._reported :]:
            step = frames // self._interval * self._interval  # of batches that end in between too
            self._trial.report(value, step)
            if not self._pruned and frames < self._frames and self._trial.should_prune():
                self._pruned = True
                self.process.terminate()
        self._reported = len(rows)

    def end(self) -> None:
        """Tell Optuna how it ended, and print it."""
        super().end()
        study, trial, rows = self._study, self._trial, self._evaluations()
        trial.set_user_attr("frames", rows[-1][0] if rows else 0)
        trial.set_user_attr("run", str(self._run()))
        trial.set_user_attr("error", self.error)
        is_interrupted = self.exit_code > 128 or self.exit_code < 0
        if self.exit_code == 0 and rows:
            told = study.tell(trial, rows[-1][1], skip_if_finished=True)
        elif is_interrupted and self._pruned:
            told = study.tell(trial, state=TrialState.PRUNED, skip_if_finished=True)
        else:
            told = study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
            if is_interrupted:
                told.user_attrs = {}  # which are those of this attempt
                RetryHeartbeatStaleTrialCallback(MOST_RETRIES)(study, told)
        result = f"{told.value:.6g}" if told.value is not None else self.error.partition("\n")[0]
        print(f"trial {trial.number}: {told.state.name.lower()}, {result}", flush=True)

    def _beat(self) -> None:
        """Record a sign of life."""
        cast(RDBStorage, self._study._storage).record_heartbeat(self._trial._trial_id)

    def _run(self) -> Path:
        """The run directory, or the folder that will hold it."""
        return next(self._folder.glob("*/*/*"), self._folder)

    def _evaluations(self) -> list[tuple[int, float]]:
        """Frames and mean return of each evaluation so far."""
        rows = read_evaluations(self._run())
        return list(zip(rows["frames"].tolist(), rows["return_mean"].tolist(), strict=True))
