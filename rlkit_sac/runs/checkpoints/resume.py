"""Starting from a checkpoint: a run resumed, or some modules of another run loaded."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from torchrl.objectives import LossModule

from rlkit_sac.config import WarmStartConfig
from rlkit_sac.config.flat import flat_config
from rlkit_sac.errors import ConfigError, RunError, refuse
from rlkit_sac.runs.checkpoints import (
    Checkpoints,
    Manifest,
    describe_damage,
    first_misfit,
    read_state,
    step_folders,
    step_of,
)
from rlkit_sac.runs.machine import (
    announce_run,
    announced_run,
    greatest,
    interrupted_run,
    num_ranks,
    rank,
    rank_folder,
)
from rlkit_sac.runs.tables.evaluations import reached_return
from rlkit_sac.runs.tables.log import TrainingLog
from rlkit_sac.runs.tables.loggers import make_loggers
from rlkit_sac.runs.tables.run_directory import RunDirectory, write_config
from rlkit_sac.runs.update_steps import PARAMETER_PREFIXES

if TYPE_CHECKING:
    from rlkit_sac.runs.run_config import BaseRunConfig

#: Options, and sections of options, that a resumed run may give other values.
MAY_CHANGE = (
    "collector.total_frames",
    "workers.address",
    "workers.publish_interval",
    "workers.restarts",
    "workers.patience",
    "workers.cpus",
    "prior.run",  # it may have moved; the checkpoint has the prior's weights
    "replay.prior_data",  # the same, with a checksum
    "evaluation",
    "loss.reward_weights",
    "update.lr",
    "update.lr_actor",
    "update.lr_qvalue",
    "update.lr_value",
    "update.lr_alpha",
    "update.schedules",
    "device",
    "compile",
    "num_threads",
    "time_limit",
    "checkpoint",
    "logging.progress",
    "logging.tensorboard",
    "logging.wandb",
)


def find_checkpoint(path: Path | str) -> tuple[Path, Path]:
    """The run directory and the checkpoint that a path means.

    Args:
        path: a run directory, for its newest checkpoint, or one of its ``checkpoints/step_*``.

    Raises:
        ConfigError: if there is none.

    >>> find_checkpoint("nowhere")
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: nowhere does not exist; give a run directory, or one of its ...
    """
    path = Path(path)
    if not os.path.isdir(path):  # also of a name that is too long
        what = "is not a folder" if os.path.exists(path) else "does not exist"
        raise ConfigError(
            f"{path} {what}; give a run directory, or one of its checkpoints/step_<frames>"
        )
    for folder in (path, path.resolve()):  # a link to a checkpoint, or "." inside of one
        if folder.parent.name == "checkpoints" and step_of(folder) is not None:
            return folder.parent.parent, folder
    folders = step_folders(path / "checkpoints")
    if not folders:
        raise ConfigError(f"{path} has no checkpoint to resume from (no checkpoints/step_<frames>)")
    return path, folders[max(folders)]


def read_checkpoint(folder: Path) -> Manifest:
    """The manifest of a checkpoint to resume from.

    Raises:
        ConfigError: naming the file that is damaged, and an older checkpoint that is not.
    """
    try:
        return Manifest.read(folder)
    except RunError as error:
        raise ConfigError(describe_damage(folder, error)) from error


def stored_options(path: Path | str) -> dict[str, Any]:
    """The options of a run to resume, by dotted key.

    Args:
        path: as in :func:`find_checkpoint`.

    Raises:
        ConfigError: if there is no checkpoint, or it is damaged.
    """
    return read_checkpoint(find_checkpoint(path)[1]).config


def check_resume(config: BaseRunConfig) -> None:
    """Refuse to resume a run that is complete, or with options that must not change.

    Args:
        config: with ``resume``; without it nothing is checked.

    Raises:
        ConfigError: with one line for each problem.
    """
    if config.resume is None:
        return
    run_path, folder = find_checkpoint(config.resume)
    manifest = read_checkpoint(folder)
    stop_at = config.evaluation.stop_at
    try:
        info = RunDirectory(run_path).info
        solved = info["status"] == "finished" and reached_return(run_path, manifest.frames, stop_at)
    except RunError as error:
        raise ConfigError(f"cannot resume from {folder}: {error}") from error
    options = flat_config(config)
    problems = [
        f"{key} was {manifest.config[key]!r} in this run and cannot become {value!r}"
        for key, value in options.items()
        if key in manifest.config and manifest.config[key] != value and not _may_change(key)
    ]
    if problems:
        changeable = [
            key for key in MAY_CHANGE if any(f"{each}.".startswith(f"{key}.") for each in options)
        ]
        problems.append(f"only {', '.join(changeable)} may change")
    frames = manifest.frames
    batch = config.collector.batch_frames(config.batch_envs) * num_ranks()
    total = -(-config.collector.total_frames // batch) * batch  # the last batch is whole
    if frames > total or (frames == total and info["status"] == "finished"):
        problems.append(
            f"{folder} is at frame {frames:,} of {total:,} already: raise collector.total_frames "
            "to resume it"
        )
    if solved:
        problems.append(
            f"{folder} is at the return {stop_at} already: raise evaluation.stop_at to resume it"
        )
    if (ranks := info.get("ranks", 1)) != num_ranks():
        problems.append(
            f"the number of processes of torchrun was {ranks} in this run and cannot become "
            f"{num_ranks()}"
        )
    if info.get("env_function") and info["task"] not in gym.registry:
        go_on = f"rlkit_sac.Run({run_path.as_posix()!r}, env=function).resume()"
        problems.append(f"a Python function made the environments of {run_path}: use {go_on}")
    refuse(problems)


def resume_after_restart(config: BaseRunConfig) -> None:
    """Resume the run that ``torchrun`` has restarted, if it has a checkpoint.

    Args:
        config: whose ``resume`` is set.
    """
    run_path = interrupted_run()
    if run_path is not None and step_folders(run_path / "checkpoints"):
        config.resume = str(run_path)


def open_run(config: BaseRunConfig, *, recipe: str) -> RunDirectory:
    """A new run directory, or that of ``config.resume``.

    Args:
        config: of the recipe.
        recipe: its name.

    Raises:
        ConfigError: if it cannot be made, or is of another recipe.
    """
    if rank() > 0:
        return RunDirectory(announced_run(), followed=True)
    if config.resume is not None:
        run = RunDirectory(find_checkpoint(config.resume)[0])
        if run.info["recipe"] != recipe:
            raise ConfigError(
                f"{run.path} is a run of recipes/{run.info['recipe']}.py: resume it with that "
                "recipe"
            )
    else:
        run = RunDirectory.create(
            config, recipe=recipe, task=config.env.id, seed=config.seed, root=config.logging.dir
        )
    announce_run(run.path)
    return run


def begin_run(
    run: RunDirectory,
    config: BaseRunConfig,
    checkpoints: Checkpoints,
    log: TrainingLog,
    **facts: Any,
) -> None:
    """Begin a new run, or restore the checkpoint of ``config.resume``.

    Args:
        run: from :func:`open_run`, entered.
        config: of the recipe.
        checkpoints: of the run; what it restores has not been written before.
        log: of the run.
        facts: for ``run.json``.

    Raises:
        ConfigError: for a checkpoint that is damaged or does not fit; nothing is changed then.
    """
    if rank() > 0:
        if config.resume is not None:
            folder = find_checkpoint(config.resume)[1]
            greatest(bool(checkpoints.restore(rank_folder(run.path) / "checkpoints" / folder.name)))
            checkpoints.discard_later()
        return
    frames = None
    if config.resume is None:
        run.begin(**facts)
    else:
        check_resume(config)  # again: the run is locked only now
        folder = find_checkpoint(config.resume)[1]
        inexact_reasons = checkpoints.restore(folder)
        if greatest(bool(inexact_reasons)) == [1] and not inexact_reasons:
            inexact_reasons = ["another rank begins new episodes"]
        inexact_reasons += _compiled_otherwise(run.info, facts, log.updates)
        frames = checkpoints.saved_at
        write_config(run.path, dataclasses.replace(config, resume=None))
        # Later checkpoints know rows that `begin` removes: killed in between, they must be gone.
        checkpoints.discard_later()
        counted = {"frames": frames, "updates": log.updates}
        run.begin(resumed_at=frames, exact=not inexact_reasons, **counted, **facts)
        checkpoints.prune()
        print(f"resuming {run.path} at frame {frames:,}")
        for reason in inexact_reasons:
            print(f"not exactly the run that never stopped: {reason}")
    log.loggers = make_loggers(
        config.logging,
        run.path,
        name=f"{config.env.id}/{run.path.name}",
        options=dataclasses.asdict(config),
        resumed_at=frames,
        wandb_id=run.info.get("wandb_id"),
    )
    if log.loggers.wandb_id is not None:
        run.update_info(wandb_id=log.loggers.wandb_id)


def _compiled_otherwise(info: Any, facts: Any, updates: int) -> list[str]:
    """Why updates before or after a checkpoint are not compiled as in one run; usually nothing."""
    first, now = info.get("compile_from"), facts.get("compile_from")
    if first == now or min(filter(None, (first, now))) > updates:
        return []
    ways = [
        f"compiled from update {each:,} on" if each else "not compiled" for each in (first, now)
    ]
    return [f"updates were {ways[0]}, and are {ways[1]} now"]


def _may_change(key: str) -> bool:
    return key in MAY_CHANGE or key.partition(".")[0] in MAY_CHANGE


_PREFIXES = PARAMETER_PREFIXES | {"critic": ("critic_network_params",)}


def check_warm_start(config: WarmStartConfig) -> None:
    """Refuse a run without a checkpoint to start from.

    Args:
        config: which run; without one nothing is checked.

    Raises:
        ConfigError: naming what is missing.

    >>> check_warm_start(WarmStartConfig())
    """
    if config.run is not None:
        find_checkpoint(config.run)


def warm_start(loss_module: LossModule, config: WarmStartConfig) -> None:
    """Load modules of a loss from a checkpoint of another run.

    Critics are loaded with their target networks; optimizers, replay and counters are not loaded.

    Args:
        loss_module: the loss to be trained.
        config: which run, which modules; without a run nothing happens.

    Raises:
        ConfigError: if the checkpoint cannot be read, or a module is missing or of another shape.
    """
    if config.run is None:
        return
    folder = find_checkpoint(config.run)[1]
    try:
        saved = read_state(Manifest.read(folder))["loss"]
    except RunError as error:
        raise ConfigError(f"cannot warm-start from {config.run}: {error}") from error
    own = loss_module.state_dict()
    shares = any(name.startswith("encoder_network") for name in own)
    if shares and "actor" in config.modules and "qvalue" not in config.modules:
        raise ConfigError(
            "cannot warm-start actor without qvalue, which includes the encoder that they share"
        )
    for module in config.modules:
        begins = _PREFIXES[module]
        begins += tuple(f"target_{prefix}" for prefix in begins)
        names = [name for name in own if name.startswith(begins)]
        if not names:
            raise ConfigError(
                f"cannot warm-start {module}: {type(loss_module).__name__} has none; leave it out "
                "of warm_start.modules"
            )
        if module != "alpha":
            names += [name for name in own | saved if name.startswith("observation_normalizer")]
        wanted, found = (
            {name: state[name] for name in names if name in state} for state in (own, saved)
        )
        if misfit := first_misfit(wanted, found):
            raise ConfigError(
                f"cannot warm-start {module} from {folder}: {misfit}; use the same environment and "
                "network options, or leave the module out of warm_start.modules"
            )
        own |= found
    loss_module.load_state_dict(own)
