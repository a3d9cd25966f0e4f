"""A storage that holds each transition as one row, so that a sample is one gather."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import LazyTensorStorage

from rlkit_sac.data.entries import NestedEntries, rows_of


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
        """The transitions at some indices."""
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
        """As :meth:`get`, for indices ``[n]`` or ``[n, T]`` that are known to be in range.

        Args:
            index: on the device of the storage.
            with_index: whether it becomes the entry ``index``.
        """
        rows = self._rows.index_select(0, index.reshape(-1))
        columns = self.layout.columns(rows if index.ndim == 1 else rows.unflatten(0, index.shape))
        if with_index:
            return self._indexed([*columns, index], index.shape, self.device)
        return self._entries(columns, index.shape, self.device)

    def write(self, start: int, data: TensorDictBase) -> None:
        """Store transitions ``[n]`` from index ``start`` on; they must not wrap around."""
        if not self.initialized:
            self._init(data[0].exclude("index"))  # the index need not be stored
        count = len(data)
        values = [data.get(key) for key in self.layout.keys]
        columns = self.layout.columns(self._rows.narrow(0, start, count))
        for column, value in zip(columns, values, strict=True):
            column.copy_(value)
        stop = start + count
        if stop > self._len:
            self._len = stop
        self._set_last_cursor(stop - 1)
        self._bump_mutation_revision()

    def _init_standard(self, data: TensorDictBase) -> None:
        self.layout = rows_of(data)
        self._entries = NestedEntries(self.layout.keys)
        self._indexed = NestedEntries([*self.layout.keys, "index"])
        # Zeros, since a checksum of rows includes what lies between and behind their entries.
        shape = (self.max_size, self.layout.width)
        self._rows = torch.zeros(shape, dtype=torch.uint8, device=self.device)
        columns = self.layout.columns(self._rows)
        self._storage = self._entries(columns, self._rows.shape[:1], self.device)
        self.initialized = True
