"""The frames of a few environments, in contiguous memory."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, prod
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from tensordict import NestedKey, TensorDictBase
from torch import Tensor

from rlkit_sac.data.collect.policy_entries import next_key
from rlkit_sac.data.nested import NestedEntries

Layout = Mapping[NestedKey, tuple[tuple[int, ...], DTypeLike]]


class Frame:
    """The entries of one frame of N environments, which are written in place.

    All entries share one array, those of one type side by side, so that storing a frame in the
    batch, or sending it to a device, takes one copy, and beginning the next one a copy for each
    type.

    Args:
        carried: shape and type, without N, of the entries whose values under ``"next"`` are those
            with which the next frame begins.
        others: shape and type of the other entries.
        count: number N of environments.
        batch_size: of the environments, ``[N]``, or ``[]`` for a single one.
        device: of the batches.

    Attributes:
        arrays: the entries ``[N, …]`` by key, zeros at first.

    >>> place = {"batch_size": torch.Size([]), "device": torch.device("cpu")}
    >>> frame = Frame({"count": ((1,), np.int64)}, {}, 1, **place)
    >>> frame.begin_batch(2)
    >>> for step in range(2):
    ...     _ = np.add(frame.arrays["count"], 1, out=frame.arrays["next", "count"])
    ...     frame.keep(step)
    ...     frame.carry()
    >>> frame.batch()["next", "count"].flatten()
    tensor([1, 2])
    """

    def __init__(
        self,
        carried: Layout,
        others: Layout,
        count: int,
        *,
        batch_size: torch.Size,
        device: torch.device,
    ) -> None:
        layouts = {**carried, **others, **{next_key(key): own for key, own in carried.items()}}
        kinds = dict.fromkeys(np.dtype(dtype) for _, dtype in layouts.values())
        self.arrays: dict[NestedKey, NDArray[Any]] = {}
        # The bytes of each type, the type, and the sizes of its entries.
        self._kinds: list[tuple[slice, np.dtype[Any], list[int]]] = []
        width = 0
        for kind in kinds:
            sizes = [prod(shape) for shape, dtype in layouts.values() if dtype == kind]
            end = width + sum(sizes) * kind.itemsize
            self._kinds.append((slice(width, end), kind, sizes))
            width = -(-end // 8) * 8  # the bytes of the largest number
        self._block = np.zeros((count, width), np.uint8)
        self._carry: list[tuple[NDArray[Any], NDArray[Any]]] = []
        for place, kind, sizes in self._kinds:
            own = {key: shape for key, (shape, dtype) in layouts.items() if dtype == kind}
            block = self._block[:, place].view(kind)
            ends = np.cumsum(sizes)
            for (key, shape), size, end in zip(own.items(), sizes, ends, strict=True):
                self.arrays[key] = block[:, end - size : end].reshape(count, *shape)
            width = sum(size for key, size in zip(own, sizes, strict=True) if key in carried)
            if width:
                self._carry.append((block[:, :width], block[:, -width:]))
        self._batch_size, self._device = batch_size, device
        self._entries = NestedEntries(list(self.arrays))
        # Entries that are not vectors need a reshape.
        self._shapes = [
            (place, array.shape[1:])
            for place, array in enumerate(self.arrays.values())
            if array.ndim != 2
        ]

    def carry(self) -> None:
        """Begin the next frame with the values under ``"next"``."""
        for now, following in self._carry:
            now[...] = following

    def begin_batch(self, steps: int) -> None:
        """Begin a batch of some frames."""
        self._kept = np.empty((steps, *self._block.shape[not self._batch_size :]), np.uint8)
        self._steps = 0

    def keep(self, step: int) -> None:
        """Copy the present frame into the batch, which ends there until another one is kept."""
        self._kept[step] = self._block
        self._steps = step + 1

    def is_finite(self) -> bool:
        """Whether the frames of the batch hold neither NaN nor infinity; true is certain."""
        with np.errstate(over="ignore", invalid="ignore"):
            kept, kinds = self._kept[: self._steps], self._kinds
            floats = (kept[..., place].view(kind) for place, kind, _ in kinds if kind.kind == "f")
            return all(isfinite(values.sum()) for values in floats)

    def batch(self) -> TensorDictBase:
        """The frames of the batch, ``[T]`` or ``[N, T]``, in memory of their own."""
        shape = torch.Size([*self._batch_size, self._steps])
        rows = torch.from_numpy(self._kept[: self._steps])
        values = self._split(rows.transpose(0, 1) if self._batch_size else rows)
        if shape.numel() > 1:
            values = [value.contiguous() for value in values]
        return self._entries(values, shape, self._device)

    def on_device(self) -> dict[NestedKey, Tensor]:
        """Copies of the present entries on another device, in one transfer."""
        values = self._split(torch.from_numpy(self._block if self._batch_size else self._block[0]))
        return dict(zip(self.arrays, values, strict=True))

    def _split(self, rows: Tensor) -> list[Tensor]:
        """The entries ``[*, …]`` of blocks ``[*, bytes]``, on the device."""
        values: list[Tensor] = []
        rows = rows.to(self._device)
        for place, kind, sizes in self._kinds:
            dtype = torch.from_numpy(np.empty(0, kind)).dtype
            values += rows[..., place].view(dtype).split_with_sizes(sizes, -1)
        for index, rest in self._shapes:
            values[index] = values[index].reshape((*rows.shape[:-1], *rest))
        return values
