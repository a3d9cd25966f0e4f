"""Search for better options of a recipe with Optuna.

    rlkit-sac train sweep --recipe sac --trials 40
    rlkit-sac train sweep --recipe hybrid_sac --options.config platform --folder runs/platform
    rlkit-sac train sweep --recipe my_sac.py --space my_space.yaml --options.env.id Hopper-v5

Each trial is a run of the recipe in this process, judged by its last evaluation. The same command
continues an interrupted sweep, and joins a sweep that runs in another terminal.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import rlkit_sac
from rlkit_sac import runs
from rlkit_sac.config import PositiveInt
from rlkit_sac.config.read import read_yaml, to_yaml
from rlkit_sac.errors import ConfigError, RunError, check_installed


@dataclass
class SweepConfig:
    """Search for options that give a higher return."""

    recipe: str = "sac"
    """Name of a recipe that comes with the package, or path of a script."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the recipe, the same in all trials: --options.config, --options.env.id."""
    space: str | None = None
    """YAML file of the options that the trials change; null for spaces/<recipe>.yaml."""
    trials: PositiveInt = 40
    """Number of finished trials, over all processes; each process may run one more."""
    pruner: Literal["median", "hyperband", "none"] = "median"
    """Rule by which trials end early if their evaluations are worse than those of others."""
    folder: str = "runs/sweep"
    """Folder of trials.csv, best.yaml and the runs; its name is the name of the study."""
    storage: str | None = None
    """Database of the trials, such as postgresql://user@host/sweeps; null for the file study.db in
    the folder."""
    heartbeat: PositiveInt = 60
    """Seconds between two signs of life of a trial; after two missing ones it starts anew."""


def main(config: SweepConfig) -> Path:
    """Run trials until enough have ended, and return the folder of the results."""
    check_installed("optuna", extra="sweep")
    import optuna
    from optuna.pruners import HyperbandPruner, MedianPruner, NopPruner
    from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
    from optuna.trial import TrialState

    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    script = Path(config.recipe if config.recipe.endswith(".py") else __file__)
    default = script.parent / "spaces" / f"{Path(config.recipe).stem}.yaml"
    space = {key: values for key, values, *_ in read_yaml(Path(config.space or default), config)}
    folder = Path(config.folder)
    folder.mkdir(parents=True, exist_ok=True)
    pruners = {"median": MedianPruner, "hyperband": HyperbandPruner, "none": NopPruner}
    study = optuna.create_study(
        study_name=folder.name,
        storage=RDBStorage(
            config.storage or f"sqlite:///{folder / 'study.db'}",
            heartbeat_interval=config.heartbeat,
            heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(max_retry=3),
        ),
        direction="maximize",
        pruner=pruners[config.pruner](),
        sampler=optuna.samplers.TPESampler(multivariate=True, constant_liar=True),
        load_if_exists=True,
    )
    subject = {"recipe": config.recipe, "options": config.options, "space": space}
    if study.user_attrs.get("subject", subject) != subject:
        raise ConfigError(f"folder: {folder} has another recipe, options or space: name a new one")
    study.set_user_attr("subject", subject)

    def run_trial(trial: optuna.Trial) -> float:
        sample = {key: draw(trial, key, values) for key, values in space.items()}
        evaluation: float | None = None

        def report(run: runs.TrainingRun) -> bool:
            nonlocal evaluation
            if run.latest.get("evaluation") is evaluation:  # no evaluation since the last report
                return False
            evaluation = run.latest["evaluation"]
            trial.report(evaluation, run.frames)
            return bool(trial.should_prune())

        options = {"logging.dir": folder / "trials", **config.options, **sample}
        try:
            run = rlkit_sac.train(config.recipe, callback=report, **options)
        except RunError as error:  # a failed trial, for example by NaN, counts as pruned
            trial.set_user_attr("error", str(error))
            raise optuna.TrialPruned from error
        trial.set_user_attr("run", str(run.path))
        if trial.should_prune():
            raise optuna.TrialPruned
        return float(run.evaluations["return_mean"].iloc[-1])

    ended = (TrialState.COMPLETE, TrialState.PRUNED)
    if len(study.get_trials(states=ended)) < config.trials:
        enough = optuna.study.MaxTrialsCallback(config.trials, states=ended)
        study.optimize(run_trial, callbacks=[enough])
    study.trials_dataframe().to_csv(folder / "trials.csv", index=False)
    if not study.best_trials:
        raise RunError(f"no trial was completed: see {folder / 'trials.csv'}")
    best = {key: draw(study.best_trial, key, values) for key, values in space.items()}
    file = folder / "best.yaml"
    file.write_text(to_yaml({**config.options, **best}), encoding="utf-8")
    print(f"best: {study.best_value:.6g}, trial {study.best_trial.number}: {file}")
    return folder


def draw(trial: Any, key: str, values: dict[str, Any]) -> Any:
    """Draw the value of an option from ``choices``, or from ``low`` to ``high``.

    ``log`` and ``step`` are those of Optuna. Two integers as limits give integers.
    """
    if "choices" in values:  # as JSON, since Optuna stores no lists
        return json.loads(trial.suggest_categorical(key, [*map(json.dumps, values["choices"])]))
    is_integer = isinstance(values["low"], int) and isinstance(values["high"], int)
    return (trial.suggest_int if is_integer else trial.suggest_float)(key, **values)


if __name__ == "__main__":
    runs.run_recipe(main, SweepConfig)
