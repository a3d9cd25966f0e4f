"""Collection, and replay: where transitions wait to be learned from."""

from rlkit_sac.data.collect import (
    ActingLoop,
    AnyCollector,
    CollectorKind,
    LightCollector,
    check_finite,
    make_collector,
)
from rlkit_sac.data.replay import (
    PrioritizedSampler,
    SliceSampler,
    TrajectorySampler,
    check_replay_fits,
    example_transition,
    make_replay_buffer,
)

__all__ = [
    "ActingLoop",
    "AnyCollector",
    "CollectorKind",
    "LightCollector",
    "PrioritizedSampler",
    "SliceSampler",
    "TrajectorySampler",
    "check_finite",
    "check_replay_fits",
    "example_transition",
    "make_collector",
    "make_replay_buffer",
]
