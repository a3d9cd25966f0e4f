"""Sampling slices of consecutive frames."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torchrl.data.replay_buffers.storages import Storage

from rlkit_sac.data.replay.blocks import BlockSampler
from rlkit_sac.errors import ConfigError


class SliceSampler(BlockSampler):
    """Draws slices of consecutive frames of one environment, for n-step and lambda targets.

    A slice may extend over the end of an episode into the next one, as its ``done`` shows. All
    slices that are stored completely are equally likely. No slice extends over a :meth:`cut`.

    Args:
        length: frames of a slice.
        capacity: frames the buffer holds.
        num_envs: environments N that fill it.
        frames_per_batch: frames N T of a block, as ``extend`` gets them.

    Attributes:
        frames: frames stored so far.

    Raises:
        ConfigError: for a length below 1, a block that the environments cannot share, or a buffer
            that cannot hold a slice of each environment besides the block being overwritten.

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

    frames: int
    _cuts: list[int]

    def __init__(
        self, length: int, *, capacity: int, num_envs: int, frames_per_batch: int | None = None
    ) -> None:
        super().__init__(
            length, capacity=capacity, num_envs=num_envs, frames_per_batch=frames_per_batch
        )
        block = self._block
        blocks = -(-length // self._steps) + 1
        if capacity < blocks * block:
            raise ConfigError(
                f"slices of {length} frames of {num_envs} environments, stored {block} frames at a "
                f"time, need a replay capacity of at least {blocks * block}, got {capacity}"
            )

    def sample(self, storage: Storage, batch_size: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Indices ``[batch_size, length]`` of slices.

        Raises:
            ConfigError: no slice is stored completely, or frames were stored in other blocks.
        """
        self._check_storage(storage)
        stretches = self._stretches()
        starts = sum(count for _, count in stretches)
        if not starts:
            raise ConfigError(
                f"slices of {self.length} frames need {self.length * self._num_envs} stored "
                f"frames of {self._num_envs} environments, there are {self.frames}: start to learn "
                "later"
            )
        device = getattr(storage, "device", "cpu")
        drawn = torch.randint(
            starts * self._num_envs, (batch_size, 1), device=device, generator=self._rng
        )
        chosen = drawn.div(self._num_envs, rounding_mode="floor")
        before, first = stretches[0][1], chosen + stretches[0][0]
        for start, count in stretches[1:]:
            first = torch.where(chosen < before, first, chosen - before + start)
            before += count
        step = first + torch.arange(self.length, device=device)
        return self._indices(drawn % self._num_envs, step), {}

    def cut(self) -> None:
        """Let no slice hold both frames stored so far and later ones, which do not follow them."""
        self._cuts.append(self.frames // self._block * self._steps)

    def state_dict(self) -> dict[str, Any]:
        """The frames stored so far, and where slices are cut."""
        return {"frames": self.frames, "cuts": list(self._cuts)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a state."""
        super().load_state_dict(state_dict)
        self._cuts = list(state_dict["cuts"])

    def _empty(self) -> None:
        super()._empty()
        self._cuts = []

    def _stretches(self) -> list[tuple[int, int]]:
        """First step of each stretch without a cut, and how many slices begin in it."""
        stored = self._stored
        self._cuts = [cut for cut in self._cuts if cut > stored.start]
        bounds = pairwise([stored.start, *self._cuts, stored.stop])
        return [(first, max(0, end - first - self.length + 1)) for first, end in bounds]
