"""Entries of TensorDicts: put together without checks, or side by side in rows of bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch
from tensordict import NestedKey, TensorDict, TensorDictBase
from torch import Tensor

#: Shape and type of each entry of one row.
Layout = Mapping[NestedKey, tuple[Sequence[int], torch.dtype]]

_ALIGNMENT = 8  # bytes; of the largest number


class NestedEntries:
    """Makes TensorDicts of entries with the same nested keys, without checks.

    TensorDict's checks of each entry take longer than everything else that is done to one frame.

    Args:
        keys: keys of the entries.

    >>> make = NestedEntries(["a", ("b", "c")])
    >>> make([torch.zeros(2), torch.ones(2)], torch.Size([2]), None)["b", "c"]
    tensor([1., 1.])
    """

    def __init__(self, keys: Sequence[NestedKey]) -> None:
        paths = [(key,) if isinstance(key, str) else key for key in keys]
        # Those at the top first, as TensorDicts have them.
        order = sorted(enumerate(paths), key=lambda each: len(each[1]))
        self._places = [(path[:-1], path[-1], place) for place, path in order]

    def __call__(
        self, values: Sequence[Tensor], batch_size: torch.Size, device: torch.device | None
    ) -> TensorDictBase:
        """Make a TensorDict.

        Args:
            values: the values in the order of the keys, each with the batch size in front.
            batch_size: the batch size of the TensorDict.
            device: the device of the TensorDict.
        """
        tree: dict[str, Any] = {}
        for outer, name, place in self._places:
            inner = tree
            for part in outer:
                inner = inner.setdefault(part, {})
            inner[name] = values[place]
        return TensorDict._new_unsafe(tree, batch_size=batch_size, device=device)


class RowSpec:
    """The layout of the entries in a row: entries of one type lie side by side, in the given order.

    Args:
        layout: shape and type of each entry.

    Attributes:
        keys: keys of the entries, in the order of their bytes in a row.
        width: bytes of a row.
        kinds: for each type, a row seen as numbers of this type: the count before its entries, the
            sizes of the entries, and the count after them.

    >>> rows = RowSpec({"a": ((2,), torch.uint8), "b": ((), torch.float32)})
    >>> rows.keys, rows.width, rows.kinds
    (['b', 'a'], 8, {torch.float32: [0, 1, 1], torch.uint8: [4, 2, 2]})
    >>> [list(column.shape) for column in rows.entries(torch.zeros(5, 8, dtype=torch.uint8))]
    [[5], [5, 2]]
    """

    def __init__(self, layout: Layout) -> None:
        # The largest numbers first, so that each lies at a multiple of its size.
        types = sorted(dict.fromkeys(t for _, t in layout.values()), key=lambda t: -t.itemsize)
        total = sum(prod(shape) * dtype.itemsize for shape, dtype in layout.values())
        self.width = -(-total // _ALIGNMENT) * _ALIGNMENT
        self.keys: list[NestedKey] = []
        self.kinds: dict[torch.dtype, list[int]] = {}
        start = 0
        for dtype in types:
            sizes = {key: prod(shape) for key, (shape, kind) in layout.items() if kind == dtype}
            before, count = start // dtype.itemsize, sum(sizes.values())
            after = self.width // dtype.itemsize - before - count
            self.kinds[dtype] = [before, *sizes.values(), after]
            self.keys += sizes
            start += count * dtype.itemsize
        # Vectors come out of a row as they are.
        shapes = enumerate(layout[key][0] for key in self.keys)
        self._shapes = [(place, shape) for place, shape in shapes if len(shape) != 1]

    def entries(self, rows: Tensor) -> list[Tensor]:
        """Return the entries of rows ``[*, width]``, as views of them."""
        columns: list[Tensor] = []
        for dtype, sizes in self.kinds.items():
            columns += rows.view(dtype).split_with_sizes(sizes, -1)[1:-1]
        for place, shape in self._shapes:
            column = columns[place]
            columns[place] = column.unflatten(-1, shape) if shape else column[..., 0]
        return columns


def row_layout(transition: TensorDictBase) -> RowSpec:
    """Return the layout of rows for transitions like this one.

    >>> row_layout(TensorDict(a=torch.zeros(3), b=torch.tensor(True))).width
    16
    """
    return RowSpec({key: (value.shape, value.dtype) for key, value in transition.items(True, True)})
