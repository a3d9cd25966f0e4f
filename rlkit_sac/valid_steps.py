"""Which steps of a batch are valid: neither padded nor left out by a collector."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from tensordict import NestedKey, TensorDictBase
from torch import Tensor

from rlkit_sac.errors import BatchError

#: The entry with which TorchRL marks the steps that were not padded.
MASK = ("collector", "mask")
#: The entry that numbers episodes, as TorchRL's collectors write it.
TRAJECTORY = ("collector", "traj_ids")


def valid_steps(batch: TensorDictBase, mask_keys: Iterable[NestedKey] = (MASK,)) -> Tensor | None:
    """The steps that are valid in every mask, bool ``[*batch]``; ``None`` without masks.

    Masks may be of any type, and have the batch's shape or a trailing dimension of one.

    Raises:
        BatchError: for a mask of another shape.

    >>> from tensordict import TensorDict
    >>> batch = TensorDict(batch_size=[2])
    >>> batch["collector", "mask"] = torch.tensor([[True], [False]])
    >>> valid_steps(batch)
    tensor([ True, False])
    """
    present = [found for key in mask_keys if (found := of_each_step(batch, key)) is not None]
    return torch.stack([each.bool() for each in present]).all(0) if present else None


def of_each_step(batch: TensorDictBase, key: NestedKey) -> Tensor | None:
    """An entry with one number for each step, ``[*batch]``; ``None`` without the entry.

    Raises:
        BatchError: for an entry of any other shape than the batch's or a trailing dimension of one.
    """
    found, shape = batch.get(key, None), batch.batch_size
    if found is None:
        return None
    if found.shape not in (shape, (*shape, 1)):
        raise BatchError(
            f"{key} has the shape {list(found.shape)}, wanted {list(shape)} or {[*shape, 1]}"
        )
    return found.reshape(shape)


def drop_invalid(frames: TensorDictBase, masks: Iterable[NestedKey] = (MASK,)) -> TensorDictBase:
    """The frames ``[n]`` of a batch that are valid; the batch itself if all are.

    Frames of the trajectory -1, which a collector did not collect, are not.

    Args:
        frames: ``[*]``.
        masks: their keys.

    Raises:
        BatchError: as :func:`valid_steps`.

    >>> from tensordict import TensorDict
    >>> frames = TensorDict(a=torch.arange(3), batch_size=[3])
    >>> frames["collector", "traj_ids"] = torch.tensor([0, 0, -1])
    >>> drop_invalid(frames)["a"]
    tensor([0, 1])
    """
    valid, numbers = valid_steps(frames, masks), of_each_step(frames, TRAJECTORY)
    if numbers is not None:
        valid = numbers >= 0 if valid is None else valid & (numbers >= 0)
    return frames if valid is None or bool(valid.all()) else frames[valid]
