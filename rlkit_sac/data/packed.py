"""Replay whose transitions lie in one row each, so that a sample is one gather."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import NestedKey, TensorDictBase
from torch import Tensor
from torchrl.data import LazyTensorStorage, RandomSampler, TensorDictReplayBuffer

from rlkit_sac.data.nested import nested
from rlkit_sac.data.prioritized import PrioritizedSampler

_ALIGNMENT = 8  # bytes; of the largest number


def row_bytes(transition: TensorDictBase) -> int:
    """Bytes that a transition takes in a :class:`PackedStorage`.

    >>> from tensordict import TensorDict
    >>> row_bytes(TensorDict(a=torch.zeros(3), b=torch.tensor(True)))
    16
    """
    total = sum(value.nbytes for value in transition.values(True, True))
    return -(-total // _ALIGNMENT) * _ALIGNMENT


class PackedStorage(LazyTensorStorage):
    """A tensor storage in which the entries of a transition lie side by side.

    What it stores is decided by the first transitions: other entries that come later are left out.
    Indexing, slices and ``storage[:]`` give TensorDicts as with TorchRL's storage; their entries
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
    _views: dict[NestedKey, Tensor]

    def get(self, index: Any) -> Any:
        """The transitions at some places."""
        is_places = torch.is_tensor(index) and index.ndim == 1 and index.dtype == torch.int64
        if not (self.initialized and is_places and len(index) and int(index.min()) >= 0):
            return super().get(index)
        if int(index.max()) >= len(self):
            raise IndexError(f"index {int(index.max())} of a storage of {len(self)} transitions")
        return self.gather(index.to(self._rows.device))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Hold the transitions of a state."""
        super().load_state_dict(state_dict)
        loaded = self._storage[: self._len].clone()
        self._init_standard(loaded[0])
        self.write(0, loaded)

    def gather(self, index: Tensor) -> TensorDictBase:
        """As :meth:`get`, for indices ``[n]`` that are known to be in range."""
        rows = self._rows.index_select(0, index)
        return self._unpacked(rows)

    def write(self, start: int, data: TensorDictBase) -> None:
        """Store transitions ``[n]`` in the places from ``start`` on, which must not wrap around."""
        if not self.initialized:
            self._init(data[0].exclude("index"))  # the place needs not be stored in it
        stop = start + len(data)
        values = {key: data[key] for key in self._views}
        for key, view in self._views.items():
            view[start:stop] = values[key]
        self._len = max(self._len, stop)
        self._set_last_cursor(stop - 1)
        self._bump_mutation_revision()

    def _init_standard(self, data: TensorDictBase) -> None:
        self._fields: dict[NestedKey, tuple[torch.dtype, torch.Size, int, int]] = {}
        offset = 0
        for key, value in sorted(data.items(True, True), key=lambda item: -item[1].element_size()):
            size = value.numel() * value.element_size()
            self._fields[key] = value.dtype, value.shape, offset, offset + size
            offset += size
        shape = self.max_size, row_bytes(data)
        self._rows = torch.empty(shape, dtype=torch.uint8, device=self.device)
        self._storage = self._unpacked(self._rows)
        self._views = dict(self._storage.items(True, True))
        self.initialized = True

    def _unpacked(self, rows: Tensor) -> TensorDictBase:
        """The entries of rows, as views of them."""
        entries = {}
        for key, (dtype, shape, start, stop) in self._fields.items():
            flat = rows[:, start:stop].view(dtype)
            if len(shape) != 1:
                flat = flat.unflatten(1, shape) if shape else flat[:, 0]
            entries[key] = flat
        return nested(entries, rows.shape[:1], rows.device)


class PackedReplayBuffer(TensorDictReplayBuffer):
    """TorchRL's replay buffer over a :class:`PackedStorage`, quick at sampling.

    ``sample`` draws the indices that TorchRL's buffer would draw. Batches come with ``index``, and
    with ``priority_weight`` from a :class:`~rlkit_sac.data.prioritized.PrioritizedSampler`.

    Args:
        capacity: transitions the buffer holds.
        batch_size: transitions per sample.
        device: where they lie.
        options: as for ``TensorDictReplayBuffer``, such as another sampler.

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
        **options: Any,
    ) -> None:
        super().__init__(
            storage=PackedStorage(capacity, device=device), batch_size=batch_size, **options
        )
        self._has_options = bool(options.keys() - {"sampler"})

    def extend(self, tensordicts: TensorDictBase, **options: Any) -> Tensor:
        """Store transitions ``[n]``, the oldest of a full buffer giving way.

        Returns:
            Their places, ``[n]``.
        """
        storage, writer, count = self._storage, self._writer, len(tensordicts)
        capacity = storage.max_size
        if not self._is_plain:
            return super().extend(tensordicts, **options)
        with self._replay_lock, self._write_lock:
            first = written = writer._cursor
            while written < first + count:
                place = written % capacity
                chunk = tensordicts[written - first : written - first + capacity - place]
                storage.write(place, chunk)
                written += len(chunk)
            writer._cursor = written % capacity
            writer._write_count += count
            places = torch.arange(first, written, device=storage.device) % capacity
            self._sampler.extend(places)
        return places

    def sample(self, batch_size: int | None = None, **options: Any) -> TensorDictBase:
        """A batch drawn uniformly with replacement, or as the sampler given draws it."""
        size = self._batch_size if batch_size is None else batch_size
        if not self._is_plain or options or size is None or not len(self):
            return super().sample(batch_size, **options)
        with self._replay_lock, self._write_lock:
            index, info = self._sampler.sample(self._storage, size)
            batch = self._storage.gather(index)
        for name, value in {"index": index, **info}.items():
            batch.set(name, value)
        return batch

    @property
    def _is_plain(self) -> bool:
        """Whether nothing but storing and one of the two ways of sampling is asked for."""
        return (
            not self._has_options
            and type(self._sampler) in (RandomSampler, PrioritizedSampler)
            and (self._transform is None or not len(self._transform))
        )
