"""Collectors, replay buffers and their samplers.

A *frame* is one step of one environment, and a *transition* is the part of a frame that replay
keeps: TensorDicts of the entries before the step, with those after it under ``"next"``. A collector
yields batches of frames, ``[T]`` or, of N environments side by side, ``[N, T]``; a replay buffer
gives batches of transitions, ``[B]``, or of B slices or segments of T consecutive ones, ``[B, T]``.
"""

from rlkit_sac.data.collect.acting_loop import ActingLoop as ActingLoop
from rlkit_sac.data.collect.collector import LightCollector as LightCollector
from rlkit_sac.data.collect.collector import LocalCollector as LocalCollector
from rlkit_sac.data.collect.collector import make_collector as make_collector
from rlkit_sac.data.collect.frame import check_finite as check_finite
from rlkit_sac.data.image_shift import random_shift as random_shift
from rlkit_sac.data.recorded_episodes import demonstrations as demonstrations
from rlkit_sac.data.replay.buffer import check_replay_fits as check_replay_fits
from rlkit_sac.data.replay.buffer import example_transition as example_transition
from rlkit_sac.data.replay.buffer import make_replay_buffer as make_replay_buffer
from rlkit_sac.data.replay.hindsight import HindsightTransform as HindsightTransform
from rlkit_sac.data.replay.n_steps import NStepTransform as NStepTransform
from rlkit_sac.data.replay.prioritized import PrioritizedSampler as PrioritizedSampler
from rlkit_sac.data.replay.slices import SliceSampler as SliceSampler
from rlkit_sac.data.replay.slices import StepSampler as StepSampler
from rlkit_sac.data.replay.trajectories import TrajectorySampler as TrajectorySampler
from rlkit_sac.data.workers.cluster import ray_cluster as ray_cluster
from rlkit_sac.data.workers.collector import WorkerCollector as WorkerCollector

__all__ = [name for name, value in globals().items() if callable(value)]
