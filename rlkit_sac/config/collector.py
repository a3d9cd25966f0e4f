"""How the frames of a run are collected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rlkit_sac.config.bounds import NonNegativeInt, PositiveInt

CollectorKind = Literal["auto", "light", "torchrl"]


@dataclass
class FramesConfig:
    """How frames are collected, in every recipe.

    >>> FramesConfig(total_frames=500).batch_frames(num_envs=4)
    4
    """

    total_frames: PositiveInt = 10_000
    """Environment steps of the whole run, all environments together; the last batch is whole."""

    init_random_frames: NonNegativeInt = 1_000
    """First frames, whose actions are drawn uniformly; rounded up to whole batches."""

    kind: CollectorKind = "auto"
    """light steps environments in a plain loop, torchrl uses TorchRL's collector, auto chooses."""

    def batch_frames(self, num_envs: int) -> int:
        """Frames of one batch: one of each environment.

        Args:
            num_envs: environments that step together.
        """
        return num_envs


@dataclass
class CollectorConfig(FramesConfig):
    """How frames are collected, and when learning starts.

    >>> CollectorConfig(total_frames=500).init_random_frames
    1000
    >>> CollectorConfig().batch_frames(num_envs=4)
    4
    """

    frames_per_batch: PositiveInt | None = None
    """Frames collected between two rounds of updates; null for one of each environment."""

    learning_starts: NonNegativeInt = 1_000
    """Frames collected before the first update."""

    def batch_frames(self, num_envs: int) -> int:
        """Frames of one batch: ``frames_per_batch``, or one of each environment.

        Args:
            num_envs: environments that step together.
        """
        return num_envs if self.frames_per_batch is None else self.frames_per_batch

    def replay_layout(self, num_envs: int) -> dict[str, int]:
        """The batches that extend a replay buffer, as arguments of ``make_replay_buffer``.

        Args:
            num_envs: environments that step together.
        """
        return {"num_envs": num_envs, "frames_per_batch": self.batch_frames(num_envs)}
