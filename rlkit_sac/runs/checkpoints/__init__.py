"""Checkpoints: the whole state of a run on disk, without pickle."""

from rlkit_sac.runs.checkpoints.checkpoints import (
    Checkpoints,
    describe_damage,
    first_misfit,
    read_state,
)
from rlkit_sac.runs.checkpoints.folders import Manifest, step_folders, step_of

__all__ = [
    "Checkpoints",
    "Manifest",
    "describe_damage",
    "first_misfit",
    "read_state",
    "step_folders",
    "step_of",
]
