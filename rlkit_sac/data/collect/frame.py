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

    Entries of one type share one array, so that storing a frame in the batch, or beginning the next
    one, takes one copy for each type.

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
        self._blocks: list[NDArray[Any]] = []
        self._sizes: list[list[int]] = []
        self._carry: list[tuple[NDArray[Any], NDArray[Any]]] = []
        for kind in kinds:
            own = {key: shape for key, (shape, dtype) in layouts.items() if dtype == kind}
            sizes = [prod(shape) for shape in own.values()]
            block = np.zeros((count, sum(sizes)), kind)
            ends = np.cumsum(sizes)
            for (key, shape), size, end in zip(own.items(), sizes, ends, strict=True):
                self.arrays[key] = block[:, end - size : end].reshape(count, *shape)
            width = sum(size for key, size in zip(own, sizes, strict=True) if key in carried)
            if width:
                self._carry.append((block[:, :width], block[:, -width:]))
            self._blocks.append(block)
            self._sizes.append(sizes)
        self._batch_size, self._device = batch_size, device
        self._on_cpu = device.type == "cpu"
        self._entries = NestedEntries(list(self.arrays))
        # Entries that are not vectors need a reshape.
        self._shapes = [
            (place, array.shape[1:])
            for place, array in enumerate(self.arrays.values())
            if array.ndim != 2
        ]
        self._kept: list[NDArray[Any]] = []

    def carry(self) -> None:
        """Begin the next frame with the values under ``"next"``."""
        for now, following in self._carry:
            now[...] = following

    def begin_batch(self, steps: int) -> None:
        """Begin a batch of some frames."""
        self._kept = [
            np.empty((steps, *block.shape[not self._batch_size :]), block.dtype)
            for block in self._blocks
        ]
        self._steps = 0

    def keep(self, step: int) -> None:
        """Copy the present frame into the batch, which ends there until another one is kept."""
        for kept, block in zip(self._kept, self._blocks, strict=True):
            kept[step] = block
        self._steps = step + 1

    def is_finite(self) -> bool:
        """Whether the frames of the batch hold neither NaN nor infinity; true is certain."""
        with np.errstate(over="ignore", invalid="ignore"):
            floats = (kept for kept in self._kept if kept.dtype.kind == "f")
            return all(isfinite(kept[: self._steps].sum()) for kept in floats)

    def batch(self) -> TensorDictBase:
        """The frames of the batch, ``[T]`` or ``[N, T]``, in memory of their own."""
        shape = torch.Size([*self._batch_size, self._steps])
        values: list[Tensor] = []
        for kept, sizes in zip(self._kept, self._sizes, strict=True):
            block = torch.from_numpy(kept[: self._steps])
            if not self._on_cpu:
                block = block.to(self._device)
            if self._batch_size:
                block = block.transpose(0, 1)
            values += block.split_with_sizes(sizes, -1)
        for place, rest in self._shapes:
            values[place] = values[place].reshape(*shape, *rest)
        if shape.numel() > 1:
            values = [value.contiguous() for value in values]
        return self._entries(values, shape, self._device)
