"""Search for better options of a recipe with Optuna; a script to copy and to change.

    python recipes/sweep.py --recipe sac --trials 40
    python recipes/sweep.py --recipe hybrid_sac --config platform --storage sqlite:///trials.db

Each trial is a run of the recipe in this process, judged by its last evaluation; the first one has
the options as they are. The same command goes on with a sweep that was interrupted. Started
several times, in several terminals or on several machines, the processes share the trials.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

import rlkit_sac.cli.early_help  # noqa: F401 (--help needs no PyTorch)

import rlkit_sac
from rlkit_sac import runs
from rlkit_sac.config import PositiveInt
from rlkit_sac.errors import RunError, check_installed


@dataclass
class SweepConfig:
    """A search for options that end with a higher return."""

    recipe: str = "sac"
    """Recipe that comes with the package, or the path of a script."""
    config: str | None = None
    """Configuration of the recipe, or a YAML file, the same in all trials; null for its defaults."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further options of all trials, by dotted key: {env.id: Hopper-v5}."""
    space: str | None = None
    """YAML file of the options that the trials change; null for that of the recipe."""
    trials: PositiveInt = 40
    """Trials that end, over all processes; each may run one more."""
    pruner: Literal["median", "hyperband", "none"] = "median"
    """Which trials end early, by their evaluations beside those of others."""
    storage: str | None = None
    """Database of the trials, such as postgresql://user@host/sweeps; null for a SQLite file in the
    folder."""
    heartbeat: PositiveInt = 60
    """Seconds between two signs of life of a trial; after two without one it begins anew."""
    folder: str = "runs/sweep"
    """Where trials.csv, best.yaml and the runs of the trials are written."""


def main(config: SweepConfig) -> Path:
    """Run trials until enough have ended; returns the folder of the results."""
    check_installed("optuna", extra="sweep")
    import optuna
    from optuna.pruners import HyperbandPruner, MedianPruner, NopPruner
    from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback

    folder, ended = (
        Path(config.folder),
        (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED),
    )
    folder.mkdir(parents=True, exist_ok=True)
    spaces = Path(__file__).parent / "spaces"
    file = Path(config.space) if config.space else spaces / f"{Path(config.recipe).stem}.yaml"
    space = yaml.safe_load(file.read_text(encoding="utf-8"))
    pruners = {"median": MedianPruner, "hyperband": HyperbandPruner, "none": NopPruner}
    storage = RDBStorage(
        config.storage or f"sqlite:///{folder / 'study.db'}",
        heartbeat_interval=config.heartbeat,
        heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(max_retry=3),
    )
    study = optuna.create_study(
        study_name=folder.name,
        storage=storage,
        direction="maximize",
        pruner=pruners[config.pruner](),
        sampler=optuna.samplers.TPESampler(multivariate=True, constant_liar=True),
        load_if_exists=True,
    )

    def run_trial(trial: optuna.Trial) -> float:
        drawn = (
            {key: draw(trial, key, dict(values)) for key, values in space.items()}
            if trial.number
            else {}
        )
        trial.set_user_attr("options", drawn)
        reported: list[float] = []

        def report(run: runs.TrainingRun) -> bool:
            value = run.latest.get("evaluation")
            if value is None or reported[-1:] == [value]:
                return False
            reported.append(value)
            trial.report(value, run.frames)
            return bool(trial.should_prune())

        options = {"logging.dir": folder / "trials", **config.options, **drawn}
        run = rlkit_sac.train(config.recipe, config=config.config, callback=report, **options)
        trial.set_user_attr("run", str(run.path))
        if trial.should_prune():
            raise optuna.TrialPruned
        return float(run.evaluations["return_mean"].iloc[-1])

    enough = optuna.study.MaxTrialsCallback(config.trials, states=ended)
    if len(study.get_trials(states=ended)) < config.trials:
        study.optimize(run_trial, catch=RunError, callbacks=[enough])
    study.trials_dataframe().to_csv(folder / "trials.csv", index=False)
    best = {**config.options, **study.best_trial.user_attrs["options"]}
    (folder / "best.yaml").write_text(yaml.safe_dump(best), encoding="utf-8")
    print(f"best: {study.best_value:.6g}, trial {study.best_trial.number}: {folder / 'best.yaml'}")
    return folder


def draw(trial: Any, key: str, values: dict[str, Any]) -> Any:
    """Draw the value of an option: from ``{choices: […]}``, or ``{low, high}`` with log or step."""
    if "choices" in values:
        return json.loads(
            trial.suggest_categorical(key, [json.dumps(v) for v in values["choices"]])
        )
    low, high = (
        json.loads(str(values.pop(limit))) for limit in ("low", "high")
    )  # YAML: 1e-4 is text
    is_integer = isinstance(low, int) and isinstance(high, int)
    suggest = trial.suggest_int if is_integer else trial.suggest_float
    return suggest(key, low, high, **values)


if __name__ == "__main__":
    runs.run_recipe(main, SweepConfig)
