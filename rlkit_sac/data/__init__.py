"""From environments to batches: collectors, replay buffers and their samplers.

A *frame* is one step of one environment, and a *transition* is the part of a frame that replay
keeps: TensorDicts of the entries before the step, with those after it under ``"next"``. A collector
yields batches of frames, ``[T]`` or, of N environments side by side, ``[N, T]``; a replay buffer
gives batches of transitions, ``[B]``, or of B slices or segments of T consecutive ones, ``[B, T]``.
"""

from rlkit_sac.data.collect.acting_loop import ActingLoop
from rlkit_sac.data.collect.collector import AnyCollector, LightCollector, make_collector
from rlkit_sac.data.collect.finite import check_finite
from rlkit_sac.data.replay.buffer import check_replay_fits, make_replay_buffer
from rlkit_sac.data.replay.prioritized import PrioritizedSampler
from rlkit_sac.data.replay.slices import SliceSampler
from rlkit_sac.data.replay.trajectories import TrajectorySampler
from rlkit_sac.data.replay.transition import example_transition
from rlkit_sac.data.workers.cluster import ray_cluster
from rlkit_sac.data.workers.collector import WorkerCollector, make_worker_collector

__all__ = [
    "ActingLoop",
    "AnyCollector",
    "LightCollector",
    "PrioritizedSampler",
    "SliceSampler",
    "TrajectorySampler",
    "WorkerCollector",
    "check_finite",
    "check_replay_fits",
    "example_transition",
    "make_collector",
    "make_replay_buffer",
    "make_worker_collector",
    "ray_cluster",
]
