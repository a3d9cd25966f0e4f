"""The base of samplers over the steps of each environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torchrl.data.replay_buffers.samplers import Sampler
from torchrl.data.replay_buffers.storages import Storage

from rlkit_sac.data.batch_steps import steps_per_batch
from rlkit_sac.errors import ConfigError

_FILE = "sampler.pt"


class BlockSampler(Sampler):
    """Maps steps of environments to indices of the storage; subclasses draw the steps.

    Each ``extend`` stores a block: the frames of a batch of N environments and T steps, environment
    by environment. The oldest frames of a full buffer are overwritten.

    Args:
        length: frames of a sample, at most.
        capacity: frames the buffer holds.
        num_envs: environments N that fill it.
        frames_per_batch: frames N T of a block, as ``extend`` gets them; default one frame of each
            environment.

    Attributes:
        frames: frames stored so far.

    Raises:
        ConfigError: for a length below 1, or a block that the environments cannot share.
    """

    frames: int
    _refused: int | None

    def __init__(
        self, length: int, *, capacity: int, num_envs: int, frames_per_batch: int | None = None
    ) -> None:
        super().__init__()
        block = num_envs if frames_per_batch is None else frames_per_batch
        if length < 1:
            raise ConfigError(f"samples are {length} frames long; they must have at least 1")
        self.length, self._capacity, self._num_envs = length, capacity, num_envs
        self._block, self._steps = block, steps_per_batch(block, num_envs)
        self._empty()

    def add(self, index: int) -> None:
        """Count a frame that was stored."""
        self.frames += 1

    def extend(self, index: Tensor) -> None:
        """Count frames that were stored at the indices ``[n]``."""
        self.frames += len(index)
        if self._num_envs > 1 and len(index) != self._block:
            self._refused = len(index)  # refused when sampled from, unless a state is loaded before

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self.frames, self._refused = state_dict["frames"], None

    def dumps(self, path: Path | str) -> None:
        """Write the state into a folder."""
        Path(path).mkdir(parents=True, exist_ok=True)
        torch.save(self.state_dict(), Path(path) / _FILE)

    def loads(self, path: Path | str) -> None:
        """Read the state from a folder."""
        self.load_state_dict(torch.load(Path(path) / _FILE, weights_only=True))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(length={self.length}, num_envs={self._num_envs})"

    def _empty(self) -> None:
        self.frames, self._refused = 0, None

    def _check_storage(self, storage: Storage) -> None:
        """Refuse a storage of another size, or with several dimensions."""
        size, dims = getattr(storage, "max_size", self._capacity), getattr(storage, "ndim", 1)
        if size != self._capacity or dims != 1:
            raise ConfigError(
                f"the storage has room for {size} frames in {dims} dimensions, wanted the "
                f"sampler's capacity of {self._capacity} in 1"
            )

    @property
    def _stored(self) -> range:
        """The steps stored for every environment, without blocks partly overwritten."""
        if self._refused is not None:
            raise ConfigError(
                f"{self._refused} frames came at once, wanted batches of {self._block} frames of "
                f"{self._num_envs} environments, environment by environment: extend the buffer "
                "once for each batch of the collector, and tell it their frames_per_batch"
            )
        if self.frames % self._block:
            raise ConfigError(
                f"{self.frames} frames were stored, which are no whole batches of {self._block}: "
                "tell the buffer the frames_per_batch that it is given"
            )
        oldest = -(-max(0, self.frames - self._capacity) // self._block)
        return range(oldest * self._steps, self.frames // self._block * self._steps)

    def _indices(self, env: Tensor, step: Tensor) -> Tensor:
        """The indices at which steps of environments are stored."""
        block = step.div(self._steps, rounding_mode="floor")
        number = block * self._block + env * self._steps + step - block * self._steps
        return number % self._capacity
