"""Options of a loss and an update that change with the frames of a run."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from rlkit_sac.updates.update import Update

Points = Mapping[str, Mapping[int, float]]


def schedule_value(points: Mapping[int, float], frames: int) -> float:
    """Return the value of a schedule, linear between the points, constant before and after them.

    Args:
        points: the values by count of frames.
        frames: the frames of the run so far.

    >>> [schedule_value({100: 1.0, 200: 0.0}, frames) for frames in (0, 150, 300)]
    [1.0, 0.5, 0.0]
    """
    pairs = sorted(points.items())
    for (start, start_value), (end, end_value) in pairwise(pairs):
        if start <= frames < end:
            return start_value + (end_value - start_value) * (frames - start) / (end - start)
    return pairs[0][1] if frames < pairs[0][0] else pairs[-1][1]


def apply_schedules(
    update: Update, loss_schedules: Points, update_schedules: Points, frames: int
) -> None:
    """Set the scheduled options of an update and its loss module.

    Args:
        update: the update.
        loss_schedules: the points of the loss's options, by name.
        update_schedules: the points of the update's options, by name.
        frames: the frames of the run so far.
    """
    for name, points in update_schedules.items():
        value = schedule_value(points, frames)
        if name == "max_grad_norm":
            update.max_grad_norm = value
        elif name == "target_update_tau":
            update.target_updater.eps = 1.0 - value  # type: ignore[union-attr]
        else:
            for key, optimizer in update.optimizers.items():
                if name in ("lr", f"lr_{key}"):
                    for group in optimizer.param_groups:
                        group["lr"] = value
    for name, points in loss_schedules.items():
        update.loss_module.set_scalar(name, schedule_value(points, frames))
