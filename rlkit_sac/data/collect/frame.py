"""The frames of a few environments, in contiguous memory."""

from __future__ import annotations

from math import isfinite, prod
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from tensordict import NestedKey, TensorDictBase
from torch import Tensor

from rlkit_sac.data.collect.policy_entries import next_key
from rlkit_sac.data.entries import Layout, NestedEntries, Rows


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
    >>> frame = Frame({"count": ((1,), torch.int64)}, {}, 1, **place)
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
        following = {next_key(key): own for key, own in carried.items()}
        self._rows = Rows({**carried, **others, **following})
        block = torch.zeros(count, self._rows.width, dtype=torch.uint8)
        columns = [column.numpy() for column in self._rows.columns(block)]
        self.arrays = dict(zip(self._rows.keys, columns, strict=True))
        self._block = block.numpy()
        self._carry: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self._floats: list[tuple[slice, DTypeLike]] = []
        for dtype, (before, *sizes, after) in self._rows.kinds.items():
            numbers = block.view(dtype)[:, before : before + sum(sizes)].numpy()
            if width := sum(prod(shape) for shape, each in carried.values() if each == dtype):
                self._carry.append((numbers[:, :width], numbers[:, -width:]))
            if dtype.is_floating_point:
                size = dtype.itemsize
                place = slice(before * size, self._rows.width - after * size)
                self._floats.append((place, numbers.dtype))
        self._batch_size, self._device = batch_size, device
        self._entries = NestedEntries(self._rows.keys)

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
            kept = self._kept[: self._steps]
            floats = (kept[..., place].view(kind) for place, kind in self._floats)
            return all(isfinite(values.sum()) for values in floats)

    def batch(self) -> TensorDictBase:
        """The frames of the batch, ``[T]`` or ``[N, T]``, in memory of their own."""
        shape = torch.Size([*self._batch_size, self._steps])
        rows = torch.from_numpy(self._kept[: self._steps]).to(self._device)
        values = self._rows.columns(rows.transpose(0, 1) if self._batch_size else rows)
        if shape.numel() > 1:
            values = [value.contiguous() for value in values]
        return self._entries(values, shape, self._device)

    def on_device(self) -> dict[NestedKey, Tensor]:
        """Copies of the present entries on another device, in one transfer."""
        rows = torch.from_numpy(self._block if self._batch_size else self._block[0])
        values = self._rows.columns(rows.to(self._device))
        return dict(zip(self._rows.keys, values, strict=True))
