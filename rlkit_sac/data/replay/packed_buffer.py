"""The replay buffer over a packed storage."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import RandomSampler, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import Sampler

from rlkit_sac.data.replay.n_steps import NStepTransform
from rlkit_sac.data.replay.packed_storage import PackedStorage
from rlkit_sac.data.replay.prior_data import PriorShare
from rlkit_sac.data.replay.slices import StatefulSampler
from rlkit_sac.data.replay.stacked_frames import StackedFrames


class PackedReplayBuffer(TensorDictReplayBuffer):
    """TorchRL's replay buffer over a :class:`PackedStorage`, quick at sampling.

    ``sample`` draws the indices that TorchRL's buffer would draw. Batches come with ``index``, and
    with ``priority_weight`` from a :class:`~rlkit_sac.data.PrioritizedSampler`. Those of a
    :class:`~rlkit_sac.data.SliceSampler` have the shape ``[batch_size, length]``; so have those
    of a :class:`~rlkit_sac.data.TrajectorySampler`, with ``("collector", "mask")``.

    Args:
        capacity: transitions the buffer holds.
        batch_size: transitions, slices or segments per sample.
        device: where they lie.
        sampler: what draws; default uniformly with replacement.
        prior: of which a share of each batch is drawn uniformly, the last ones, where the buffer's
            own are drawn uniformly too. Such batches have no ``index``.

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
        """A batch drawn uniformly with replacement, or as the sampler given draws it."""
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
        """A batch whose last transitions are of the prior data."""
        storage, count = self._storage, round(size * prior.share)
        with self._replay_lock, self._write_lock:
            drawn = ((storage, size - count), (prior, count))
            rows = [each._rows.index_select(0, each._rand_given_ndim(n)) for each, n in drawn]
        columns = storage.layout.columns(torch.cat(rows))
        return storage._entries(columns, torch.Size([size]), storage.device)

    @property
    def _is_basic(self) -> bool:
        """Whether sampler and transforms are of this package, or uniform sampling."""
        sampler, transforms = self._sampler, self._transform.transforms
        return (type(sampler) is RandomSampler or isinstance(sampler, StatefulSampler)) and all(
            isinstance(each, StackedFrames | NStepTransform) for each in transforms
        )
