"""Collecting frames: TorchRL's collector, and a plain loop with the same output."""

from rlkit_sac.data.collect.acting_loop import ActingLoop
from rlkit_sac.data.collect.collector import AnyCollector, CollectorKind, make_collector
from rlkit_sac.data.collect.finite import check_finite
from rlkit_sac.data.collect.light_collector import LightCollector

__all__ = [
    "ActingLoop",
    "AnyCollector",
    "CollectorKind",
    "LightCollector",
    "check_finite",
    "make_collector",
]
