"""A storage that holds each transition as one row, so that a sample is one gather."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import NestedKey, TensorDictBase
from torch import Tensor
from torchrl.data import LazyTensorStorage

from rlkit_sac.data.nested import NestedEntries

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
        columns = self._columns(rows if index.ndim == 1 else rows.unflatten(0, index.shape))
        if with_index:
            return self._indexed([*columns, index], index.shape, self.device)
        return self._entries(columns, index.shape, self.device)

    def write(self, start: int, data: TensorDictBase) -> None:
        """Store transitions ``[n]`` from index ``start`` on; they must not wrap around."""
        if not self.initialized:
            self._init(data[0].exclude("index"))  # the index need not be stored
        count = len(data)
        values = [data.get(key) for key in self._keys]
        columns = self._columns(self._rows.narrow(0, start, count))
        for column, value in zip(columns, values, strict=True):
            column.copy_(value)
        stop = start + count
        if stop > self._len:
            self._len = stop
        self._set_last_cursor(stop - 1)
        self._bump_mutation_revision()

    def _init_standard(self, data: TensorDictBase) -> None:
        kinds: dict[torch.dtype, dict[NestedKey, Tensor]] = {}
        for key, value in data.items(True, True):
            kinds.setdefault(value.dtype, {})[key] = value
        # The largest numbers first, so that each lies at a multiple of its size.
        ordered = dict(sorted(kinds.items(), key=lambda kind: -kind[0].itemsize))
        width, start = row_bytes(data), 0
        # For each type the row as such numbers: those before its entries, theirs, those after.
        self._splits: list[tuple[torch.dtype, list[int]]] = []
        for dtype, entries in ordered.items():
            sizes = [value.numel() for value in entries.values()]
            before, size = start // dtype.itemsize, dtype.itemsize
            self._splits.append((dtype, [before, *sizes, width // size - before - sum(sizes)]))
            start += sum(sizes) * size
        values = [value for entries in ordered.values() for value in entries.values()]
        # Vectors come out of a row as they are.
        self._shapes = [
            (place, value.shape) for place, value in enumerate(values) if value.ndim != 1
        ]
        self._keys: list[NestedKey] = [key for entries in ordered.values() for key in entries]
        self._entries = NestedEntries(self._keys)
        self._indexed = NestedEntries([*self._keys, "index"])
        # Zeros, since a checksum of rows includes what lies between and behind their entries.
        self._rows = torch.zeros((self.max_size, width), dtype=torch.uint8, device=self.device)
        self._storage = self._entries(self._columns(self._rows), self._rows.shape[:1], self.device)
        self.initialized = True

    def _columns(self, rows: Tensor) -> list[Tensor]:
        """The entries of rows, as views of them."""
        columns: list[Tensor] = []
        for dtype, sizes in self._splits:
            columns += rows.view(dtype).split_with_sizes(sizes, -1)[1:-1]
        for place, shape in self._shapes:
            column = columns[place]
            columns[place] = column.unflatten(-1, shape) if shape else column[..., 0]
        return columns
