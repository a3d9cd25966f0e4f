"""The study of a sweep: its trials in a database, shared by all who run the same command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from filelock import FileLock
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.engine import make_url

from rlkit_sac.config.flat import flat_config
from rlkit_sac.errors import ConfigError, summary
from rlkit_sac.runs.sweeps.space import SearchSpace

#: Seconds between two signs of life of a trial; six without one and it counts as killed.
HEARTBEAT = 10
#: How often a trial is run again whose process was killed, earlier interruptions included.
MOST_RETRIES = 10

# Options that may differ between those who work on one study.
_OF_MACHINE = ("device", "num_threads", "resume")


class Sweep:
    """The trials of a sweep: asks Optuna for the next one, and tells how each ended.

    A trial that was killed or interrupted is failed, and a copy of it waits to be run; the copy
    keeps the number and the folder of the first. Numbers and trials here are those of the copies.

    Args:
        folder: of the sweep; made where missing.
        name: of the study in its storage.
        storage: URL of a database; ``None`` for a SQLite file in the folder.
        space: what the trials change.
        config: what they do not.
        pruner: ``none``, ``median`` or ``hyperband``.

    Raises:
        ConfigError: if the storage cannot be opened, or the study has another space or options.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        storage: str | None,
        space: SearchSpace,
        config: Any,
        pruner: str,
    ) -> None:
        self.folder, self.space, self.config = folder, space, config
        self._met: set[int] = set()
        url = storage or f"sqlite:///{folder / 'study.db'}"
        self.place = "--storage" if storage else folder / "study.db"  # a URL may hold a password
        try:
            folder.mkdir(parents=True, exist_ok=True)
            is_sqlite = make_url(url).get_backend_name() == "sqlite"
            self._storage = RDBStorage(
                url,
                engine_kwargs={"connect_args": {"timeout": 60}} if is_sqlite else None,
                heartbeat_interval=HEARTBEAT,
                grace_period=6 * HEARTBEAT,
                heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(MOST_RETRIES),
            )
            with FileLock(folder / ".lock"):  # one makes the study, the others find it
                self.study = optuna.create_study(
                    study_name=name,
                    storage=self._storage,
                    direction="maximize",
                    pruner=make_pruner(pruner, config),
                    load_if_exists=True,
                )
                self._describe(name)
            list(map(number_of, self.trials()))  # which reads all of it
        except ConfigError:
            raise
        except Exception as error:  # any error that wrong content of a database can cause
            text = f"cannot open the storage of the sweep ({self.place}): {summary(error)}"
            raise ConfigError(text) from error

    def _describe(self, name: str) -> None:
        """Note what the trials have in common, or compare it with what was noted."""
        if self.study.direction != StudyDirection.MAXIMIZE:
            raise ConfigError(f"the study {name} does not maximize: name a new one, --study NAME")
        distributions = self.space.distributions.items()
        facts = {
            "space": {
                key: optuna.distributions.distribution_to_json(each) for key, each in distributions
            },
            "options": {
                key: value
                for key, value in flat_config(self.config).items()
                if key not in (*_OF_MACHINE, *self.space.distributions)
                and not key.startswith("logging.")
            },
        }
        noted = self.study.user_attrs
        for what, values in facts.items():
            if what not in noted:  # a new study, or one whose maker was killed before
                self.study.set_user_attr(what, values)
                continue
            before = noted[what]
            if differing := [k for k in {**before, **values} if before.get(k) != values.get(k)]:
                raise ConfigError(
                    f"the study {name} has another {'space' if what == 'space' else 'value'} of "
                    f"{', '.join(differing[:3])}: name a new one, --study NAME"
                )
        self.study.enqueue_trial(dict(self.space.default), skip_if_exists=True)

    def trials(self) -> list[FrozenTrial]:
        """All trials, without the earlier attempts of those that are run again."""
        found = self.study.get_trials(deepcopy=False)
        again = {
            number for trial in found for number in trial.system_attrs.get("retry_history", [])
        }
        return [trial for trial in found if trial.number not in again]

    def open_trials(self) -> tuple[int, int]:
        """How many trials there are, and how many of them have not ended."""
        optuna.storages.fail_stale_trials(self.study)
        trials = self.trials()
        for trial in trials:
            # Killed before its first sign of life, it would count as running for ever.
            is_begun = trial.user_attrs.get("attempt") == trial.number
            if trial.state == TrialState.RUNNING and not is_begun and trial.number not in self._met:
                self._met.add(trial.number)
                self._storage.record_heartbeat(trial._trial_id)
        return len(trials), sum(not trial.state.is_finished() for trial in trials)

    def ask(self, most: int) -> Trial | None:
        """The next trial, unless there are as many as there shall be.

        The sampler is made anew for each, with a seed of its own: of two who begin at once, or
        before and after an interruption, none draws what the other has drawn.

        Args:
            most: how many trials there shall be.
        """
        with FileLock(self.folder / ".lock"):  # two who ask at once get no trial too many
            trials = self.trials()
            waiting = any(trial.state == TrialState.WAITING for trial in trials)
            if not waiting and len(trials) >= most:
                return None
            entropy = (self.config.seed, len(self.study.get_trials(deepcopy=False)))
            self.study.sampler = optuna.samplers.TPESampler(
                seed=int(np.random.SeedSequence(entropy).generate_state(1)[0]),
                multivariate=True,
                constant_liar=True,
            )
            trial = self.study.ask(dict(self.space.distributions))
        self.beat(trial)
        trial.set_user_attr("number", number_of(trial))  # which its further attempts keep
        trial.set_user_attr("attempt", trial.number)
        return trial

    def beat(self, trial: Trial) -> None:
        """Record a sign of life of a trial."""
        self._storage.record_heartbeat(trial._trial_id)

    def again(self, trial: Trial, *, killed: bool = False) -> None:
        """Fail a trial that was interrupted or killed, and let it be run again.

        Args:
            trial: whose process has ended.
            killed: whether it was killed, after which it is not run again without end.
        """
        self.study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
        retry = RetryHeartbeatStaleTrialCallback(MOST_RETRIES if killed else None)
        retry(self.study, self.study.get_trials(deepcopy=True)[trial.number])


def make_pruner(name: str, config: Any) -> optuna.pruners.BasePruner:
    """The pruner of a name, whose resource are the frames of a run.

    Args:
        name: ``none``, ``median`` or ``hyperband``.
        config: of the runs.

    >>> from rlkit_sac.runs import RunConfig
    >>> type(make_pruner("hyperband", RunConfig())).__name__
    'HyperbandPruner'
    """
    frames = config.collector.total_frames
    if name == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=frames // 5)
    if name == "hyperband":
        first = min(config.evaluation.interval, frames)
        return optuna.pruners.HyperbandPruner(min_resource=first, max_resource=frames)
    return optuna.pruners.NopPruner()


def number_of(trial: FrozenTrial | Trial) -> int:
    """The number of a trial: that of its first attempt."""
    return int(trial.user_attrs.get("number", trial.number))


def describe_params(params: Mapping[str, Any]) -> str:
    """The options of a trial in one line.

    >>> describe_params({"update.lr_actor": 0.00031234, "compile": False})
    'update.lr_actor 0.000312, compile False'
    """
    texts = [f"{v:.3g}" if isinstance(v, float) else str(v) for v in params.values()]
    return ", ".join(f"{key} {text}" for key, text in zip(params, texts, strict=True))
