"""Values of a loss and its update that change with the frames of a run."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from rlkit_sac.updates.update import Update

Points = Mapping[str, Mapping[int, float]]


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


def apply_schedules(loss: Points, update: Points, frames: int, *, into: Update) -> None:
    """Set the scheduled values of loss and update.

    Args:
        loss: values of the loss by name and frames.
        update: those of the update.
        frames: of the run so far.
        into: the update, with its loss module.
    """
    for name, points in update.items():
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
    for name, points in loss.items():
        into.loss_module.set_scalar(name, value_at(points, frames))
