"""Replay: where transitions wait to be learned from."""

from rlkit_sac.data.replay.buffer import check_replay_fits, make_replay_buffer
from rlkit_sac.data.replay.prioritized import PrioritizedSampler
from rlkit_sac.data.replay.slices import SliceSampler
from rlkit_sac.data.replay.trajectories import TrajectorySampler
from rlkit_sac.data.replay.transition import example_transition

__all__ = [
    "PrioritizedSampler",
    "SliceSampler",
    "TrajectorySampler",
    "check_replay_fits",
    "example_transition",
    "make_replay_buffer",
]
