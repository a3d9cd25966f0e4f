"""Any TorchRL loss, its optimizers and target networks as one update, eager or compiled."""

from rlkit_sac.updates.schedule import EveryFrames as EveryFrames
from rlkit_sac.updates.schedule import ReplaySchedule as ReplaySchedule
from rlkit_sac.updates.schedule import UpdateSchedule as UpdateSchedule
from rlkit_sac.updates.steps import LossStep as LossStep
from rlkit_sac.updates.steps import TargetStep as TargetStep
from rlkit_sac.updates.update import Update as Update

__all__ = [name for name, value in globals().items() if callable(value)]
