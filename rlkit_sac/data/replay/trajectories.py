"""Sampling segments of single episodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torchrl.data.replay_buffers.storages import Storage

from rlkit_sac.data.replay.slices import BlockSampler
from rlkit_sac.errors import ConfigError

_LARGE = 2**62


class TrajectorySampler(BlockSampler):
    """Draws segments of single episodes, for losses over trajectories.

    Episodes begin where the entry ``is_init`` is true. The episode of a segment is drawn uniformly
    among all of which frames are stored, including unfinished ones and those whose first frames
    were overwritten; then the segment's start, uniformly among those that leave it complete.
    Segments of shorter episodes are padded with their last frame; ``("collector", "mask")`` is
    false there. So all batches have one shape. Random numbers are drawn on the CPU.

    Args:
        length: frames of a segment.
        capacity: frames the buffer holds; the oldest leave first.
        num_envs: environments N that fill it.
        frames_per_batch: frames N T of a block, as ``extend`` gets them; default one frame of each
            environment.
        within_batches: if true, no segment extends over the end of a block
            (:class:`~rlkit_sac.data.replay.slices.BlockSampler`). The frames of an episode in one
            block then count as an episode.
        frame_stack: frames K of a stack, see `BlockSampler`.

    Attributes:
        frames: frames stored so far.

    Raises:
        ConfigError: for a length above the steps of a block where it must hold a
            segment, a block that the environments cannot share, or a buffer that cannot hold a
            block besides the one being overwritten.

    >>> from tensordict import TensorDict
    >>> from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
    >>> replay = TensorDictReplayBuffer(
    ...     storage=LazyTensorStorage(100), sampler=TrajectorySampler(3, capacity=100, num_envs=1),
    ...     batch_size=2,
    ... )
    >>> is_init = torch.tensor([[True], [False]])
    >>> _ = replay.extend(TensorDict(frame=torch.arange(2), is_init=is_init, batch_size=[2]))
    >>> batch = replay.sample()
    >>> batch["frame"][0], batch["collector", "mask"][0]
    (tensor([0, 1, 1]), tensor([ True,  True, False]))
    """

    _known: int
    _ended: Tensor
    _running: Tensor
    _episodes: Tensor

    def sample(
        self, storage: Storage, batch_size: int
    ) -> tuple[Tensor, dict[tuple[str, str], Tensor]]:
        """Return indices ``[batch_size, length]`` of segments, and the mask of their valid frames.

        Raises:
            ConfigError: nothing is stored, or frames were stored in other blocks.
        """
        if not self._stored:
            raise ConfigError("there are no segments to draw, since nothing is stored yet")
        if self._known != self.frames:
            self._update_episodes(storage)
        options: dict[str, Any] = {"generator": self._rng}
        chosen = torch.randint(len(self._episodes), (batch_size,), **options)
        env, first, stop = self._episodes.index_select(0, chosen).unsqueeze(-1).unbind(1)
        starts = (stop - first - self.length).clamp_min(0) + 1
        draw = torch.randint(_LARGE, (batch_size, 1), **options)
        step = first + draw % starts + torch.arange(self.length)
        valid = step < stop
        places = self._storage_indices(env, torch.minimum(step, stop - 1))
        device = getattr(storage, "device", "cpu")
        return places.to(device), {("collector", "mask"): valid.to(device)}

    def state_dict(self) -> dict[str, Any]:
        """Return the number of frames stored, and the episodes found in them so far."""
        return {
            "frames": self.frames,
            "known": self._known,
            "ended": self._ended.clone(),
            "running": self._running.clone(),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a state."""
        super().load_state_dict(state_dict)
        self._known = state_dict["known"]
        self._ended, self._running = (state_dict[key].cpu().clone() for key in ("ended", "running"))
        self._list_episodes()

    def _empty(self) -> None:
        super()._empty()
        self._known = 0
        # Environment, first step and the one after the last: of episodes that another followed.
        self._ended = torch.zeros(0, 3, dtype=torch.int64)
        # First step of the episode after them in each environment.
        self._running = torch.zeros(self.num_envs, dtype=torch.int64)
        self._list_episodes()

    def _update_episodes(self, storage: Storage) -> None:
        """Find the episodes that begin in the frames stored since the last sample."""
        oldest = self._stored.start
        first = max(self._known // self.num_envs, oldest)
        oldest += self.frame_stack - 1 if oldest else 0  # the first frame with a whole stack
        stored = self._read_is_init(storage, range(first * self.num_envs, self.frames))
        begins = stored.reshape(-1, self.num_envs, self.steps).transpose(0, 1)
        begins[..., 0] |= self._within_batches
        env, step = begins.reshape(self.num_envs, -1).nonzero().unbind(1)
        step = step + first
        # An episode ends where the next one of its environment begins.
        before = torch.cat([torch.tensor([-1]), env])[:-1]
        begun = torch.where(before == env, step.roll(1), self._running[env])
        ended = torch.cat([self._ended, torch.stack([env, begun, step], 1)])
        ended[:, 1].clamp_min_(oldest)
        self._ended = ended[ended[:, 1] < ended[:, 2]]
        running = self._running.scatter_reduce(0, env, step, "amax")
        self._running = running.clamp_min(oldest)
        self._known = self.frames
        self._list_episodes()

    def _read_is_init(self, storage: Storage, frames: range) -> Tensor:
        """Return the entry ``is_init`` of stored frames, bool on the CPU."""
        stored = storage[:].get("is_init", None)  # a view: other entries are not read
        if stored is None:
            text = "which tells where an episode begins: store it too"
            raise ConfigError(f"replay holds no entry 'is_init', {text}")
        numbers = torch.arange(frames.start, frames.stop) % self._capacity
        return stored[numbers.to(stored.device)].cpu()

    def _list_episodes(self) -> None:
        stop = torch.full_like(self._running, self._known // self.num_envs)
        running = torch.stack([torch.arange(self.num_envs), self._running, stop], 1)
        self._episodes = torch.cat([self._ended, running])
