"""Collection, and replay: where transitions wait to be learned from."""

from rlkit_sac.data.collection import AnyCollector, CollectorKind, make_collector
from rlkit_sac.data.finite import check_finite
from rlkit_sac.data.light_collection import LightCollector
from rlkit_sac.data.plain_loop import PlainLoop
from rlkit_sac.data.prioritized import PrioritizedSampler
from rlkit_sac.data.replay import check_replay_fits, make_replay_buffer
from rlkit_sac.data.slices import SliceSampler
from rlkit_sac.data.trajectories import TrajectorySampler
from rlkit_sac.data.transition import example_transition

__all__ = [
    "AnyCollector",
    "CollectorKind",
    "LightCollector",
    "PlainLoop",
    "PrioritizedSampler",
    "SliceSampler",
    "TrajectorySampler",
    "check_finite",
    "check_replay_fits",
    "example_transition",
    "make_collector",
    "make_replay_buffer",
]
