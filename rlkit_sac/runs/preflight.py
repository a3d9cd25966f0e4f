"""Options and places that cannot work, found before anything is created."""

from __future__ import annotations

import os
from pathlib import Path

from rlkit_sac.config import CollectorConfig, EnvConfig, FramesConfig, ReplayConfig
from rlkit_sac.data.batch_steps import steps_per_batch
from rlkit_sac.data.replay.slices import SliceSampler
from rlkit_sac.errors import ConfigError


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
    steps = steps_per_batch(**layout)
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
