"""A replay buffer that holds each transition as one row, so that a sample is one gather."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import LazyTensorStorage, RandomSampler, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import Sampler

from rlkit_sac.data.entries import NestedEntries, row_layout
from rlkit_sac.data.replay.hindsight import HindsightTransform
from rlkit_sac.data.replay.n_steps import NStepTransform
from rlkit_sac.data.replay.slices import StatefulSampler
from rlkit_sac.data.replay.stacked_frames import StackedFrames


class PackedStorage(LazyTensorStorage):
    """A tensor storage in which the entries of a transition lie side by side.

    The first transitions decide which entries are stored; others that come later are left out.
    Indexing, slices and ``storage[:]`` return TensorDicts as with TorchRL's storage, whose entries
    are views of the rows.

    >>> from tensordict import TensorDict
    >>> storage = PackedStorage(10)
    >>> storage.set(range(2), TensorDict(a=torch.tensor([1.0, 2.0]), batch_size=[2]))
    >>> storage.get(torch.tensor([1, 0, 1]))["a"]
    tensor([2., 1., 2.])
    """

    initialized: bool
    device: torch.device
    _len: int

    def get(self, index: Any) -> Any:
        """Return the transitions at some indices."""
        is_places = torch.is_tensor(index) and index.ndim == 1 and index.dtype == torch.int64
        if not (self.initialized and is_places and len(index) and int(index.min()) >= 0):
            return super().get(index)
        if int(index.max()) >= len(self):
            raise IndexError(f"index {int(index.max())} of a storage of {len(self)} transitions")
        return self.gather(index.to(self._rows.device))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Replace the transitions by those of a state."""
        super().load_state_dict(state_dict)
        loaded = self._storage[: self._len].clone()
        self._init_standard(loaded[0])
        self.write(0, loaded)

    def gather(self, index: Tensor, *, with_index: bool = False) -> TensorDictBase:
        """Return the transitions at indices ``[n]`` or ``[n, T]``, which are not checked.

        Args:
            index: the indices, on the device of the storage.
            with_index: if true, they become the entry ``index``.
        """
        rows = self._rows.index_select(0, index.reshape(-1))
        columns = self.layout.entries(rows if index.ndim == 1 else rows.unflatten(0, index.shape))
        if with_index:
            return self._indexed([*columns, index], index.shape, self.device)
        return self._entries(columns, index.shape, self.device)

    def write(self, start: int, data: TensorDictBase) -> None:
        """Store transitions ``[n]`` from index ``start`` on; they must not wrap around."""
        if not self.initialized:
            self._init(data[0].exclude("index"))  # the index need not be stored
        count = len(data)
        values = [data.get(key) for key in self.layout.keys]
        columns = self.layout.entries(self._rows.narrow(0, start, count))
        for column, value in zip(columns, values, strict=True):
            column.copy_(value)
        stop = start + count
        if stop > self._len:
            self._len = stop
        self._set_last_cursor(stop - 1)
        self._bump_mutation_revision()

    def _init_standard(self, data: TensorDictBase) -> None:
        self.layout = row_layout(data)
        self._entries = NestedEntries(self.layout.keys)
        self._indexed = NestedEntries([*self.layout.keys, "index"])
        # Zeros, since a checksum of rows includes what lies between and behind their entries.
        shape = (self.max_size, self.layout.width)
        self._rows = torch.zeros(shape, dtype=torch.uint8, device=self.device)
        columns = self.layout.entries(self._rows)
        self._storage = self._entries(columns, self._rows.shape[:1], self.device)
        self.initialized = True


class PriorShare(PackedStorage):
    """Prior transitions, from which a share of each batch is drawn.

    The state is their checksum: checkpoints do not hold them.

    Args:
        data: the transitions ``[n]``.
        share: the share of each batch, from 0 to 1.
        device: the device of the transitions.
    """

    def __init__(self, data: TensorDictBase, share: float, *, device: torch.device | str) -> None:
        super().__init__(len(data), device=device)
        self.write(0, data)
        self.share = share
        self.inexact_reasons: list[str] = []
        self._state = {"sha256": hashlib.sha256(self._rows.cpu().numpy().data).hexdigest()}

    def state_dict(self) -> dict[str, Any]:
        """Return the checksum of the transitions."""
        return self._state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Compare the transitions with those of the run before it was stopped."""
        if state_dict != self._state:
            self.inexact_reasons = ["replay.prior_data holds other transitions than before"]


class PackedReplayBuffer(TensorDictReplayBuffer):
    """TorchRL's replay buffer over a :class:`PackedStorage`, quick at sampling.

    ``sample`` draws the indices that TorchRL's buffer would draw. Batches come with ``index``, and
    with ``priority_weight`` from a :class:`~rlkit_sac.data.PrioritizedSampler`. Those of a
    :class:`~rlkit_sac.data.SliceSampler` have the shape ``[batch_size, length]``; so have those
    of a :class:`~rlkit_sac.data.TrajectorySampler`, with ``("collector", "mask")``.

    Args:
        capacity: transitions the buffer holds.
        batch_size: transitions, slices or segments per sample.
        device: the device of the transitions.
        sampler: the sampler. Default: uniform with replacement.
        prior: prior transitions; a share of each batch, at its end, is drawn uniformly from them,
            and the rest uniformly from the buffer. Their ``index`` is -1.

    >>> from tensordict import TensorDict
    >>> replay = PackedReplayBuffer(capacity=10, batch_size=4)
    >>> _ = replay.extend(TensorDict(a=torch.arange(3.0), batch_size=[3]))
    >>> bool((replay.sample()["a"] < 3).all()), len(replay)
    (True, 3)
    """

    def __init__(
        self,
        *,
        capacity: int,
        batch_size: int,
        device: torch.device | str = "cpu",
        sampler: Sampler | None = None,
        prior: PriorShare | None = None,
    ) -> None:
        storage = PackedStorage(capacity, device=device)
        super().__init__(storage=storage, batch_size=batch_size, sampler=sampler)
        self.prior = prior
        if prior is not None:
            storage._init(prior[0])  # the rows of both have one layout then

    def extend(self, tensordicts: TensorDictBase, **options: Any) -> Tensor:
        """Store transitions ``[n]``, in a full buffer over the oldest.

        Returns:
            Their indices ``[n]``.
        """
        if not self._is_basic:
            return super().extend(tensordicts, **options)
        if len(self._transform):
            tensordicts = self._transform.inv(tensordicts)
            if tensordicts is None:
                return torch.zeros(0, dtype=torch.int64)
        storage, writer, count = self._storage, self._writer, len(tensordicts)
        capacity = storage.max_size
        with self._replay_lock, self._write_lock:
            first, written = writer._cursor, 0
            while written < count:  # more than once where they reach the end of the buffer
                place = (first + written) % capacity
                size = min(count - written, capacity - place)
                part = tensordicts if size == count else tensordicts[written : written + size]
                storage.write(place, part)
                written += size
            writer._cursor = (first + count) % capacity
            writer._write_count += count
            places = torch.arange(first, first + count, device=storage.device)
            if first + count > capacity:
                places = places % capacity
            self._sampler.extend(places)
        return places

    def sample(self, batch_size: int | None = None, **options: Any) -> TensorDictBase:
        """Return a batch drawn by the sampler, by default uniformly with replacement."""
        size = self._batch_size if batch_size is None else batch_size
        if self.prior is not None and size is not None:
            batch = self._sample_both(self.prior, size, **options)
            return self._transform(batch) if len(self._transform) else batch
        if not self._is_basic or options or size is None or not len(self):
            return super().sample(batch_size, **options)
        with self._replay_lock, self._write_lock:
            if type(self._sampler) is RandomSampler:
                index, info = self._storage._rand_given_ndim(size), {}
            else:
                index, info = self._sampler.sample(self._storage, size)
            batch = self._storage.gather(index, with_index=True)
        for name, value in info.items():
            batch.set(name, value)
        return self._transform(batch) if len(self._transform) else batch

    def _sample_both(self, prior: PriorShare, size: int) -> TensorDictBase:
        """Return a batch from the buffer and, at its end, from the prior data."""
        storage, count = self._storage, round(size * prior.share)
        with self._replay_lock, self._write_lock:
            index, places = storage._rand_given_ndim(size - count), prior._rand_given_ndim(count)
            rows = [storage._rows.index_select(0, index), prior._rows.index_select(0, places)]
        columns = storage.layout.entries(torch.cat(rows))
        index = torch.cat([index, torch.full_like(places, -1)])
        return storage._indexed([*columns, index], index.shape, storage.device)

    @property
    def _is_basic(self) -> bool:
        """Whether sampling is uniform or by a sampler of this package, with its transforms."""
        sampler, transforms = self._sampler, self._transform.transforms
        return (type(sampler) is RandomSampler or isinstance(sampler, StatefulSampler)) and all(
            isinstance(each, StackedFrames | NStepTransform | HindsightTransform)
            for each in transforms
        )
