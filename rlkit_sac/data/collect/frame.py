"""The frames of a few environments in contiguous memory, which are refused with NaN or infinity."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, prod
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from tensordict import NestedKey, TensorDictBase
from torch import Tensor
from torchrl.envs import EnvBase

from rlkit_sac.data.collect.policy_entries import next_key, state_keys
from rlkit_sac.data.entries import Layout, NestedEntries, RowSpec
from rlkit_sac.errors import RunError


class Frame:
    """The entries of one frame of N environments, which are written in place.

    All entries share one array, those of one type side by side, so that storing a frame in the
    batch, or sending it to a device, takes one copy, and beginning the next one a copy for each
    type.

    Args:
        carried: shape and type, without N, of the entries that the next frame takes over
            from ``"next"``.
        others: shape and type of the other entries.
        count: number N of environments.
        batch_size: batch size of the environments, ``[N]``, or ``[]`` for a single one.
        device: the device of the batches.

    Attributes:
        arrays: the entries ``[N, …]`` by key, zeros at first.

    >>> place = {"batch_size": torch.Size([]), "device": torch.device("cpu")}
    >>> frame = Frame({"count": ((1,), torch.int64)}, {}, 1, **place)
    >>> frame.begin_batch(2)
    >>> for step in range(2):
    ...     _ = np.add(frame.arrays["count"], 1, out=frame.arrays["next", "count"])
    ...     frame.append_to_batch(step)
    ...     frame.carry_over()
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
        self._rows = RowSpec({**carried, **others, **following})
        block = torch.zeros(count, self._rows.width, dtype=torch.uint8)
        columns = [column.numpy() for column in self._rows.entries(block)]
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

    def carry_over(self) -> None:
        """Begin the next frame with the values under ``"next"``."""
        for now, following in self._carry:
            now[...] = following

    def begin_batch(self, steps: int) -> None:
        """Begin a batch of some frames."""
        self._kept = np.empty((steps, *self._block.shape[not self._batch_size :]), np.uint8)
        self._steps = 0

    def append_to_batch(self, step: int) -> None:
        """Copy the present frame into the batch, as its last frame so far."""
        self._kept[step] = self._block
        self._steps = step + 1

    def is_finite(self) -> bool:
        """Return true if the frames of the batch certainly hold neither NaN nor infinity."""
        with np.errstate(over="ignore", invalid="ignore"):
            kept = self._kept[: self._steps]
            floats = (kept[..., place].view(kind) for place, kind in self._floats)
            return all(isfinite(values.sum()) for values in floats)

    def batch(self) -> TensorDictBase:
        """Return the frames of the batch, ``[T]`` or ``[N, T]``, in memory of their own."""
        shape = torch.Size([*self._batch_size, self._steps])
        rows = torch.from_numpy(self._kept[: self._steps]).to(self._device)
        values = self._rows.entries(rows.transpose(0, 1) if self._batch_size else rows)
        if shape.numel() > 1:
            values = [value.contiguous() for value in values]
        return self._entries(values, shape, self._device)

    def copies_on_device(self) -> dict[NestedKey, Tensor]:
        """Return copies of the present entries on another device, in one transfer."""
        rows = torch.from_numpy(self._block if self._batch_size else self._block[0])
        values = self._rows.entries(rows.to(self._device))
        return dict(zip(self._rows.keys, values, strict=True))


def check_finite(
    batch: TensorDictBase, *, states: Sequence[NestedKey] = (), first_index: int = 0
) -> None:
    """Refuse collected frames that hold NaN or infinity; one would make all parameters NaN.

    Args:
        batch: frames ``[T]``, or ``[N, T]`` of N environments stepped together.
        states: entries under ``"next"`` that the policy writes, not the environment.
        first_index: number of the first environment.

    Raises:
        RunError: naming the first entry of the earliest frame, the environment and the frame: that
            of the episode, by ``step_count``, or else that of the batch.

    >>> from tensordict import TensorDict
    >>> batch = TensorDict(reward=torch.tensor([[1.0], [torch.nan]]), batch_size=[2])
    >>> check_finite(batch)
    Traceback (most recent call last):
    rlkit_sac.errors.RunError: 'reward' is nan at frame 2 of the batch in environment 0. ...
    """
    steps = batch.shape[-1]
    floats = [(key, value) for key, value in batch.items(True, True) if value.is_floating_point()]
    # One test of everything, since each result would wait for the GPU.
    if not floats or torch.stack([value.isfinite().all() for _, value in floats]).all():
        return
    found = []
    for key, value in floats:
        values = value.reshape(batch.numel() // steps, steps, -1)
        if bad := (~values.isfinite()).nonzero().tolist():
            index = min(bad, key=lambda index: index[1])
            found.append((index, key, values[tuple(index)].item()))
    (env, step, _), key, number = min(found, key=lambda each: each[0][1])
    frame = f"frame {step + 1} of the batch"
    if (counts := batch.get("step_count", None)) is not None:
        frame = f"frame {int(counts.reshape(-1, steps)[env, step]) + 1} of its episode"
    of_policy = key[0] in ("action", "behavior") or key in ("action", *map(next_key, states))
    why = "The environment returned it: correct it there"
    if of_policy:
        why = (
            "The policy computed it: its parameters are no longer finite; lower the learning "
            "rates, or limit the gradients"
        )
    raise RunError(f"{key!r} is {number} at {frame} in environment {first_index + env}. {why}")


def check_frames(
    batch: TensorDictBase, env: EnvBase, policy: object, *, first_index: int = 0
) -> None:
    """Refuse frames of an environment and its policy that hold NaN or infinity.

    Args:
        batch: frames that the policy collected in the environment.
        env: the environment of the frames.
        policy: the policy; its ``in_keys`` and the state of its memory are checked.
        first_index: number of the first environment.
    """
    states = state_keys(policy)
    read = dict.fromkeys([*env.observation_keys, *getattr(policy, "in_keys", ())])
    after = [next_key(key) for key in (*env.reward_keys, *read)]
    # In the order of a step: what was observed, the action upon it, what the step returned.
    kept = batch.select(*read, *env.action_keys, "behavior", *after, strict=False)
    # The state before a step is the state after the last one, or zero: it is checked there.
    check_finite(kept.exclude(*states), states=states, first_index=first_index)
