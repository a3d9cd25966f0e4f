"""What a run needs of the machine and of its task, checked before anything is created."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from tensordict import TensorDictBase
from torchrl.envs import EnvBase

from rlkit_sac.config import (
    CollectorConfig,
    EnvConfig,
    FramesConfig,
    LoggingConfig,
    ReplayConfig,
    StorageConfig,
)
from rlkit_sac.config.bounds import Check
from rlkit_sac.data.replay.buffer import check_replay_fits
from rlkit_sac.data.replay.slices import SliceSampler
from rlkit_sac.data.replay.transition import example_transition
from rlkit_sac.envs.make import closing_env, make_env
from rlkit_sac.errors import ConfigError
from rlkit_sac.runs.devices import resolve_device
from rlkit_sac.runs.tables.loggers import check_logger

# What the losses of soft actor-critic read of a transition.
_TRANSITION = (
    "observation",
    "action",
    *(("next", key) for key in ("observation", "reward", "done", "terminated")),
)


class RecipeConfig(Protocol):
    """The part of a recipe's configuration that `standard_checks` reads."""

    env: EnvConfig
    collector: FramesConfig
    replay: StorageConfig
    logging: LoggingConfig
    device: str
    resume: str | None


def stored_transition(env: EnvBase) -> TensorDictBase:
    """One transition as the recipes of soft actor-critic store it.

    Args:
        env: of the task.

    >>> from rlkit_sac.envs import make_env
    >>> stored_transition(make_env("Pendulum-v1"))["next", "reward"].shape
    torch.Size([1])
    """
    return example_transition(env, _TRANSITION)


def standard_checks(
    config: RecipeConfig,
    *,
    task: Sequence[Callable[[EnvBase], object]],
    transition: Callable[[EnvBase], TensorDictBase] = stored_transition,
) -> list[Check]:
    """Checks that every recipe shares, for the method ``checks()`` of its configuration.

    They cover the device, the batches and the kind of the collector, the folder of the runs, the
    packages of the loggers, the task (built once, on the CPU, and closed) and the size of the
    replay buffer.

    Args:
        config: the recipe's configuration.
        task: what the recipe demands of its environment; each raises `ConfigError`.
        transition: one as the recipe stores it. Default: :func:`stored_transition`.

    >>> from types import SimpleNamespace
    >>> from rlkit_sac.envs import continuous_action_bounds
    >>> config = SimpleNamespace(
    ...     env=EnvConfig(id="CartPole-v1"), collector=FramesConfig(), replay=StorageConfig(),
    ...     logging=LoggingConfig(), device="cpu", resume=None,
    ... )
    >>> *_, task, replay = standard_checks(config, task=[continuous_action_bounds])
    >>> task.run()
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: this algorithm acts in continuous spaces, but the actions are ...
    """
    example: list[TensorDictBase] = []  # a transition of the task, for the size of the replay

    def check_task() -> None:
        env = make_env(
            config.env.id,
            rescale_actions=config.env.rescale_actions,
            max_episode_steps=config.env.max_episode_steps,
            kwargs=config.env.kwargs,
        )
        with closing_env(env):
            refusals = [_refusal(demand, env) for demand in task]
            problems = [text for text in refusals if text is not None]
            if problems:
                raise ConfigError("\n".join(problems))
            example.append(transition(env))

    def check_replay() -> None:
        check_replay_fits(
            example[0],
            capacity=config.replay.capacity,
            storage=config.replay.storage,
            device=resolve_device(config.device),
        )

    def check_folder() -> None:
        check_writable(Path(config.logging.dir))

    return [
        Check(("device",), lambda: resolve_device(config.device)),
        Check(
            ("collector.frames_per_batch", "env.num_envs"),
            lambda: check_batches(config.collector, config.env.num_envs),
        ),
        Check(
            ("collector.kind", "env.parallel", "env.num_envs"),
            lambda: check_collector_kind(config.collector, config.env),
        ),
        *([] if config.resume else [Check(("logging.dir",), check_folder)]),
        Check(
            ("logging.tensorboard",),
            lambda: check_logger("tensorboard", config.logging.tensorboard),
        ),
        Check(("logging.wandb",), lambda: check_logger("wandb", config.logging.wandb)),
        Check(("env.id", "env"), check_task),
        Check(("replay.capacity", "replay.storage", "device", "env"), check_replay),
    ]


def check_batches(collector: FramesConfig, num_envs: int) -> None:
    """Refuse batches of frames that the environments cannot share evenly.

    Args:
        collector: how frames are gathered.
        num_envs: environments that step together.

    Raises:
        ConfigError: naming the next multiple.

    >>> check_batches(CollectorConfig(frames_per_batch=3), num_envs=2)
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: must be a multiple of env.num_envs (2), got 3: choose 2 or 4
    """
    frames = collector.batch_frames(num_envs)
    if frames % num_envs:
        below = frames // num_envs * num_envs
        choices = f"{below} or {below + num_envs}" if below else str(num_envs)
        raise ConfigError(
            f"must be a multiple of env.num_envs ({num_envs}), got {frames}: choose {choices}"
        )


def check_collector_kind(collector: FramesConfig, env: EnvConfig) -> None:
    """Refuse the light collector for environments in processes of their own.

    Args:
        collector: how frames are gathered.
        env: how many environments there are, and where.

    Raises:
        ConfigError: saying what to choose instead.

    >>> check_collector_kind(FramesConfig(kind="light"), EnvConfig(num_envs=2, parallel=True))
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: light steps environments in this process, but env.parallel is ...
    """
    if collector.kind == "light" and env.parallel and env.num_envs > 1:
        raise ConfigError(
            "light steps environments in this process, but env.parallel is true: choose auto or "
            "torchrl, or leave env.parallel at false"
        )


def check_slices(
    replay: ReplayConfig, collector: CollectorConfig, *, lmbda: float, num_envs: int
) -> None:
    """Refuse slices that replay cannot hold, that come too late, or that targets lack.

    Args:
        replay: with the length of slices.
        collector: how frames are gathered.
        lmbda: of the targets.
        num_envs: environments that step together.

    Raises:
        ConfigError: naming the option and what it has to be.

    >>> check_slices(ReplayConfig(), CollectorConfig(), lmbda=0.9, num_envs=1)
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: loss.lmbda is 0.9, which needs slices of more than one frame: ...
    """
    length, layout = replay.slice_length, collector.replay_layout(num_envs)
    if length == 1:
        if lmbda:
            raise ConfigError(
                f"loss.lmbda is {lmbda}, which needs slices of more than one frame: set "
                "replay.slice_length, or leave loss.lmbda at 0"
            )
        return
    if not lmbda:
        raise ConfigError(
            f"replay.slice_length is {length}, but loss.lmbda is 0, with which targets look one "
            "step ahead: set loss.lmbda, 1 for as many steps as a slice has"
        )
    SliceSampler(length, capacity=replay.capacity, **layout)
    steps = layout["frames_per_batch"] // num_envs
    needed = -(-length // steps) * steps * num_envs
    if collector.learning_starts < needed:
        raise ConfigError(
            f"slices of {length} frames need collector.learning_starts of at least {needed}, got "
            f"{collector.learning_starts}"
        )


def check_writable(folder: Path) -> None:
    """Refuse a folder that cannot be written, or made where it does not exist; make nothing.

    Args:
        folder: where files will go.

    Raises:
        ConfigError: naming the folder or file in the way.

    >>> check_writable(Path("not/yet/there"))
    """
    nearest = folder.absolute()
    try:
        while not nearest.exists():
            nearest = nearest.parent
        if not nearest.is_dir():
            raise ConfigError(f"{folder} cannot be written: {nearest} is not a folder")
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror}") from error
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ConfigError(f"{folder} cannot be written: no permission to write in {nearest}")


def _refusal(demand: Callable[[EnvBase], object], env: EnvBase) -> str | None:
    try:
        demand(env)
    except ConfigError as error:
        return str(error)
    return None
