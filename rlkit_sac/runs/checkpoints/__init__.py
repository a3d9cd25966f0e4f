"""Checkpoints: the whole state of a run on disk, without pickle."""

from rlkit_sac.runs.checkpoints.checkpoints import Checkpoints as Checkpoints
from rlkit_sac.runs.checkpoints.checkpoints import describe_damage as describe_damage
from rlkit_sac.runs.checkpoints.checkpoints import first_misfit as first_misfit
from rlkit_sac.runs.checkpoints.checkpoints import read_state as read_state
from rlkit_sac.runs.checkpoints.folders import Manifest as Manifest
from rlkit_sac.runs.checkpoints.folders import step_folders as step_folders
from rlkit_sac.runs.checkpoints.folders import step_of as step_of
