"""Any TorchRL loss, its optimizers and target networks as one update, eager or compiled."""

from rlkit_sac.updates.schedule import EveryFrames, ReplaySchedule, UpdateSchedule
from rlkit_sac.updates.steps import LossStep, TargetStep
from rlkit_sac.updates.update import Update

__all__ = ["EveryFrames", "LossStep", "ReplaySchedule", "TargetStep", "Update", "UpdateSchedule"]
