"""Slices of consecutive frames from replay."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torchrl.data.replay_buffers.samplers import Sampler
from torchrl.data.replay_buffers.storages import Storage

from rlkit_sac.errors import ConfigError


class SliceSampler(Sampler):
    """Draws slices of consecutive frames of one environment, for n-step and lambda targets.

    Frames are stored in blocks: those of a batch of N environments and T steps lie in it
    environment by environment. A slice goes on where an episode ends, with the first frames of the
    next one: its ``done`` tells the losses where returns are cut. All slices that are stored whole
    are equally likely. :meth:`cut` keeps slices from going on where an episode was lost.

    Args:
        length: frames of a slice.
        capacity: frames the buffer holds.
        num_envs: environments N that fill it.
        frames_per_batch: frames N T of a block, as ``extend`` gets them.

    Attributes:
        frames: frames stored so far.

    Raises:
        ConfigError: for a length below 1, a block that the environments cannot share, or a buffer
            that cannot hold a slice of each environment beside a block that is being overwritten.

    >>> from tensordict import TensorDict
    >>> from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
    >>> replay = TensorDictReplayBuffer(
    ...     storage=LazyTensorStorage(100), sampler=SliceSampler(3, capacity=100), batch_size=2
    ... )
    >>> _ = replay.extend(TensorDict(frame=torch.arange(3), batch_size=[3]))
    >>> replay.sample()["frame"]
    tensor([[0, 1, 2],
            [0, 1, 2]])
    """

    frames: int
    _cuts: list[int]

    def __init__(
        self, length: int, *, capacity: int, num_envs: int = 1, frames_per_batch: int | None = None
    ) -> None:
        super().__init__()
        block = num_envs if frames_per_batch is None else frames_per_batch
        if length < 1:
            raise ConfigError(f"the length of slices is {length}; it must be at least 1")
        if num_envs < 1 or block < 1 or block % num_envs:
            raise ConfigError(
                f"batches have {block} frames of {num_envs} environments; each environment must "
                "give the same number of frames"
            )
        self.length, self._capacity, self._num_envs = length, capacity, num_envs
        self._block, self._steps = block, block // num_envs
        blocks = -(-length // self._steps) + 1
        if capacity < blocks * block:
            raise ConfigError(
                f"slices of {length} frames of {num_envs} environments, stored {block} frames at a "
                f"time, need a replay capacity of at least {blocks * block}, got {capacity}"
            )
        self._empty()

    def sample(self, storage: Storage, batch_size: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Places ``[batch_size, length]`` of slices.

        Raises:
            ConfigError: while no slice is stored whole, or where frames came in other blocks.
        """
        if self.frames % self._block:
            raise ConfigError(
                f"{self.frames} frames were stored, which are no whole batches of {self._block}: "
                "tell the buffer the frames_per_batch that it is given"
            )
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
        block = step.div(self._steps, rounding_mode="floor")
        number = (
            block * self._block + drawn % self._num_envs * self._steps + step - block * self._steps
        )
        return number % self._capacity, {}

    def cut(self) -> None:
        """Say that the frames to come do not follow those stored so far."""
        self._cuts.append(self.frames // self._block * self._steps)

    def add(self, index: int) -> None:
        """Take in a frame."""
        self.frames += 1

    def extend(self, index: Tensor) -> None:
        """Take in frames at places ``[n]``."""
        self.frames += len(index)

    def state_dict(self) -> dict[str, Any]:
        """The frames stored so far, and where slices are cut."""
        return {"frames": self.frames, "cuts": list(self._cuts)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self.frames, self._cuts = state_dict["frames"], list(state_dict["cuts"])

    def dumps(self, path: Path | str) -> None:
        """Write the state into a folder."""
        Path(path).mkdir(parents=True, exist_ok=True)
        (Path(path) / "slices.json").write_text(json.dumps(self.state_dict()))

    def loads(self, path: Path | str) -> None:
        """Read the state from a folder."""
        self.load_state_dict(json.loads((Path(path) / "slices.json").read_text()))

    def __repr__(self) -> str:
        return f"SliceSampler(length={self.length}, num_envs={self._num_envs})"

    def _empty(self) -> None:
        self.frames, self._cuts = 0, []

    def _stretches(self) -> list[tuple[int, int]]:
        """First steps without a cut behind them, and how many slices begin in each stretch."""
        oldest = -(-max(0, self.frames - self._capacity) // self._block) * self._steps
        stop = self.frames // self._block * self._steps
        self._cuts = [cut for cut in self._cuts if cut > oldest]
        bounds = pairwise([oldest, *self._cuts, stop])
        return [(first, max(0, end - first - self.length + 1)) for first, end in bounds]
