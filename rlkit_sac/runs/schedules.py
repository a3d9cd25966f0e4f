"""Values of loss and update, and weights of rewards, that change with the frames of a run."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import get_type_hints

from torchrl.objectives import LossModule

from rlkit_sac.config import ReturnConfig, StepConfig, TemperatureConfig
from rlkit_sac.config.values import value_error
from rlkit_sac.errors import ConfigError, refuse
from rlkit_sac.updates.update import Update

_LOSS = ("gamma", "beta", "qvalue_coef", "reward_scale", "dqda_clipping")
_TEMPERATURE = ("alpha_init", "target_entropy")
_UPDATE = ("target_update_tau", "max_grad_norm")


def value_at(points: Mapping[int, float], frames: int) -> float:
    """The value of a schedule: linear between its frames, constant before and after them.

    Args:
        points: values by frames.
        frames: of the run so far.

    >>> [value_at({100: 1.0, 200: 0.0}, frames) for frames in (0, 150, 300)]
    [1.0, 0.5, 0.0]
    """
    known = sorted(points.items())
    for (before, low), (after, high) in pairwise(known):
        if before <= frames < after:
            return low + (high - low) * (frames - before) / (after - before)
    return known[0][1] if frames < known[0][0] else known[-1][1]


def check_schedules(section: ReturnConfig | StepConfig) -> None:
    """Refuse schedules of options that cannot change, or with values out of range.

    Args:
        section: with ``schedules``.

    Raises:
        ConfigError: with one line for each problem.

    >>> from rlkit_sac.config import UpdateConfig
    >>> check_schedules(UpdateConfig(schedules={"lr_actr": {0: 1e-3}}))
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: there is no schedule of 'lr_actr'; did you mean lr_actor?
    """
    problems = [
        problem
        for name, points in section.schedules.items()
        for problem in _problems(section, name, points)
    ]
    refuse(problems)


def apply_schedules(loss: ReturnConfig, update: StepConfig, frames: int, *, into: Update) -> None:
    """Set the scheduled values of loss and update.

    Args:
        loss: with the schedules of the loss.
        update: with the schedules of the update.
        frames: of the run so far.
        into: the update, with its loss module.
    """
    for name, points in update.schedules.items():
        value = value_at(points, frames)
        if name == "max_grad_norm":
            into.max_grad_norm = value
        elif name == "target_update_tau":
            into.target_updater.eps = 1.0 - value  # type: ignore[union-attr]
        else:
            for key, optimizer in into.optimizers.items():
                if name in ("lr", f"lr_{key}"):
                    for group in optimizer.param_groups:
                        group["lr"] = value
    module: LossModule = into.loss_module
    for name, points in loss.schedules.items():
        module.set_scalar(name, value_at(points, frames))


def _is_rate(name: str) -> bool:
    return name == "lr" or name.startswith("lr_")


def _names(section: ReturnConfig | StepConfig) -> list[str]:
    if isinstance(section, StepConfig):
        rates = [name for name in vars(section) if _is_rate(name)]
        return [*rates, *_UPDATE]
    of_temperature = _TEMPERATURE if isinstance(section, TemperatureConfig) else ()
    return [name for name in (*_LOSS, *of_temperature) if hasattr(section, name)]


def _problems(
    section: ReturnConfig | StepConfig, name: str, points: Mapping[int, float]
) -> list[str]:
    names = _names(section)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        advice = f"did you mean {near[0]}?" if near else f"choose among {', '.join(names)}"
        return [f"there is no schedule of {name!r}; {advice}"]
    is_fixed = getattr(section, "fixed_alpha", None)
    if name in _TEMPERATURE and is_fixed != (name == "alpha_init"):
        return [f"{name} can change only where fixed_alpha is {str(not is_fixed).lower()}"]
    if not points:
        return [f"{name} needs a value at one number of frames at least"]
    found = [f"{name} must name frames from 0 on, got {at}" for at in points if at < 0]
    hint = get_type_hints(type(section), include_extras=True)[name]
    for value in points.values():
        if value == 0 and _is_rate(name):
            continue  # a schedule may end at 0
        if error := value_error(value, hint):
            found.append(f"{name} {error}")
        elif value == 0 and name == "dqda_clipping":
            found.append("dqda_clipping must stay above 0")
    return found


def check_reward_weights(weights: Sequence[float] | None, reward_dim: int) -> None:
    """Refuse weights that do not fit a task's reward.

    Args:
        weights: one for each dimension of the reward, or ``None`` for ones.
        reward_dim: number of reward dimensions of the task.

    Raises:
        ConfigError: for weights of a scalar reward, or of another number.

    >>> check_reward_weights([1.0], reward_dim=2)
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: must hold 2 weights, one for each dimension of the task's ...
    """
    if weights is None or len(weights) == reward_dim > 1:
        return
    if reward_dim == 1:
        raise ConfigError(
            "is for vector rewards, but the task's reward is a single number: leave it out"
        )
    raise ConfigError(
        f"must hold {reward_dim} weights, one for each dimension of the task's reward, got "
        f"{list(weights)}"
    )
