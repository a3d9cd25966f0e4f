"""Sampling slices of consecutive frames, and the base of samplers over environments' steps."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torchrl.data.replay_buffers.samplers import Sampler
from torchrl.data.replay_buffers.storages import Storage

from rlkit_sac.data.batch_steps import steps_per_batch
from rlkit_sac.errors import ConfigError


class StatefulSampler(Sampler):
    """A sampler of TorchRL's replay buffers without files of its own.

    ``state_dict`` and ``load_state_dict`` save and restore it, also as parts of those of a buffer.
    """

    def dumps(self, path: Path | str) -> None:
        """Not supported."""
        raise NotImplementedError(f"{type(self).__name__} has no files: save its state_dict()")

    def loads(self, path: Path | str) -> None:
        """Not supported."""
        raise NotImplementedError(f"{type(self).__name__} has no files: use load_state_dict()")


class BlockSampler(StatefulSampler):
    """Maps steps of environments to indices of the storage; subclasses draw the steps.

    Each ``extend`` stores a block: the frames of a batch of N environments and T steps, environment
    by environment. The oldest frames of a full buffer are overwritten.

    Args:
        length: frames of a sample, at most.
        capacity: frames the buffer holds.
        num_envs: number N of environments that fill it.
        frames_per_batch: frames N T of a block, as ``extend`` gets them. Default: one frame of each
            environment.
        within_batches: if true, a sample holds frames of one block only. Needed where the next
            block does not follow it: several workers, each with N environments of its own.
        frame_stack: number K of frames in a stack; the buffer stores the newest one
            (:class:`~rlkit_sac.data.replay.stacked_frames.StackedFrames`). Steps whose K - 1 steps
            before are no longer stored are left out. Default: 1.

    Attributes:
        frames: frames stored so far.
        block: frames N T of a block.
        steps: steps T of a block.

    Raises:
        ConfigError: for a length above the steps of a block where it must hold a
            sample, a block that the environments cannot share, a buffer that cannot hold a
            sample besides the block being overwritten, or stacks with ``within_batches``.
    """

    frames: int
    _refused: int | None

    def __init__(
        self,
        length: int,
        *,
        capacity: int,
        num_envs: int,
        frames_per_batch: int | None = None,
        within_batches: bool = False,
        frame_stack: int = 1,
    ) -> None:
        super().__init__()
        if frame_stack > 1 and within_batches:
            text = "which needs batches that follow each other: set within_batches to False"
            raise ConfigError(f"frame_stack is {frame_stack}, {text}")
        self.frame_stack = frame_stack
        self.block = block = num_envs if frames_per_batch is None else frames_per_batch
        self.length, self._capacity, self.num_envs = length, capacity, num_envs
        self.steps = steps_per_batch(block, num_envs)
        self._within_batches = within_batches
        if within_batches and length > self.steps:
            raise ConfigError(
                f"samples of {length} frames do not fit into the workers' batches of {self.steps} "
                f"steps: set collector.frames_per_batch to {length * num_envs} or more"
            )
        needed = self._blocks_needed() * block
        if capacity < needed:
            raise ConfigError(
                f"samples of {length} frames of {num_envs} environments, stored {block} frames at "
                f"a time, need a replay capacity of at least {needed}, got {capacity}"
            )
        self._empty()

    def add(self, index: int) -> None:
        """Count a frame that was stored."""
        self.frames += 1

    def extend(self, index: Tensor) -> None:
        """Count frames that were stored at the indices ``[n]``."""
        self.frames += len(index)
        if self.num_envs > 1 and len(index) != self.block:
            self._refused = len(index)  # refused when sampled from, unless a state is loaded before

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self.frames, self._refused = state_dict["frames"], None

    @property
    def frames_back(self) -> int:
        """The largest distance in storage between a frame and the first frame of its stack."""
        blocks = -(-(self.frame_stack - 1) // self.steps)
        return blocks * (self.block - self.steps) + self.frame_stack - 1

    def check_block(self, frames: int) -> None:
        """Refuse frames of several environments that are not one block."""
        if self.num_envs > 1 and frames != self.block:
            raise ConfigError(
                f"{frames} frames came at once, wanted batches of {self.block} frames of "
                f"{self.num_envs} environments, as frames_per_batch tells the sampler"
            )

    def _blocks_needed(self) -> int:
        """Return the number of blocks that the buffer must hold; one is being overwritten."""
        return -(-self.frame_stack // self.steps) + 1

    def _empty(self) -> None:
        self.frames, self._refused = 0, None

    @property
    def _stored(self) -> range:
        """The steps stored for every environment, without blocks partly overwritten."""
        if self._refused is not None:
            self.check_block(self._refused)
        if self.frames % self.block:
            raise ConfigError(
                f"{self.frames} frames were stored, which are no whole batches of {self.block}: "
                "tell the sampler the frames_per_batch that the buffer is given"
            )
        oldest = -(-max(0, self.frames - self._capacity) // self.block)
        return range(oldest * self.steps, self.frames // self.block * self.steps)

    def _storage_indices(self, env: Tensor, step: Tensor) -> Tensor:
        """Return the indices at which steps of environments are stored."""
        block = step.div(self.steps, rounding_mode="floor")
        number = block * self.block + env * self.steps + step - block * self.steps
        return number % self._capacity


class SliceSampler(BlockSampler):
    """Draws slices of consecutive frames of one environment, for lambda targets and memories.

    A slice may extend over the end of an episode into the next one, as its ``done`` shows. All
    slices that are stored completely are equally likely. No slice extends over a gap, see
    :meth:`mark_gap`, which is needed before the frames of another collector.

    Args:
        length: frames of a slice.
        capacity: frames the buffer holds.
        num_envs: environments N that fill it.
        frames_per_batch: frames N T of a block, as ``extend`` gets them.
        within_batches: if true, no slice extends over the end of a block, see `BlockSampler`.
        frame_stack: frames K of a stack, see `BlockSampler`; no slice begins with the first K - 1
            of consecutive frames.

    Attributes:
        frames: frames stored so far.

    Raises:
        ConfigError: for a length above the steps of a block where it must hold a slice,
            a block that the environments cannot share, or a buffer that cannot hold a slice of each
            environment besides the block being overwritten.

    >>> from tensordict import TensorDict
    >>> from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
    >>> replay = TensorDictReplayBuffer(
    ...     storage=LazyTensorStorage(100), sampler=SliceSampler(3, capacity=100, num_envs=1),
    ...     batch_size=2,
    ... )
    >>> _ = replay.extend(TensorDict(frame=torch.arange(3), batch_size=[3]))
    >>> replay.sample()["frame"]
    tensor([[0, 1, 2],
            [0, 1, 2]])
    """

    _cuts: list[int]

    def sample(self, storage: Storage, batch_size: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Return indices ``[batch_size, length]`` of slices.

        Raises:
            ConfigError: no slice is stored completely, or frames were stored in other blocks.
        """
        stretches = self._uncut_ranges()
        starts = sum(count for _, count in stretches)
        if not starts:
            raise ConfigError(
                f"slices of {self.length} frames need {self._frames_read * self.num_envs} stored "
                f"frames, there are {self.frames}: start to learn later"
            )
        device = getattr(storage, "device", "cpu")
        draw = torch.randint(
            starts * self.num_envs, (batch_size, 1), device=device, generator=self._rng
        )
        chosen = draw.div(self.num_envs, rounding_mode="floor")
        before, first = stretches[0][1], chosen + stretches[0][0]
        for start, count in stretches[1:]:
            first = torch.where(chosen < before, first, chosen - before + start)
            before += count
        if self._within_batches:  # the last steps of a block begin no slice
            block = chosen.div(self.steps - self._frames_read + 1, rounding_mode="floor")
            first = first + block * (self._frames_read - 1)
        step = first + torch.arange(self.frame_stack - 1, self._frames_read, device=device)
        return self._storage_indices(draw % self.num_envs, step), {}

    def mark_gap(self) -> None:
        """Let no slice hold both frames stored so far and later ones."""
        self._cuts.append(self.frames // self.block * self.steps)

    def state_dict(self) -> dict[str, Any]:
        """Return the frames stored so far, and where slices are cut."""
        return {"frames": self.frames, "cuts": list(self._cuts)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a state."""
        super().load_state_dict(state_dict)
        self._cuts = [int(cut) for cut in state_dict["cuts"]]

    def _blocks_needed(self) -> int:
        return -(-self._frames_read // self.steps) + 1

    @property
    def _frames_read(self) -> int:
        """The number of consecutive frames that a slice reads, with its stacks."""
        return self.length + self.frame_stack - 1

    def _empty(self) -> None:
        super()._empty()
        self._cuts = []

    def _uncut_ranges(self) -> list[tuple[int, int]]:
        """Return the first step of each stretch without a cut, and its number of slices."""
        stored = self._stored
        if self._within_batches:
            blocks = len(stored) // self.steps
            return [(stored.start, blocks * (self.steps - self._frames_read + 1))]
        self._cuts = [cut for cut in self._cuts if cut > stored.start]
        bounds = pairwise([stored.start, *self._cuts, stored.stop])
        return [(first, max(0, end - first - self._frames_read + 1)) for first, end in bounds]


class StepSampler(SliceSampler):
    """Draws single frames uniformly, for stacks whose earlier frames are stored too.

    Args:
        options: the options of a :class:`SliceSampler`, without ``length``.

    Raises:
        ConfigError: as `SliceSampler`.

    >>> StepSampler(capacity=100, num_envs=2, frame_stack=4).length
    1
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(1, **options)

    def sample(self, storage: Storage, batch_size: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Return indices ``[batch_size]``.

        Raises:
            ConfigError: as `SliceSampler`.
        """
        index, info = super().sample(storage, batch_size)
        return index.squeeze(-1), info
