"""The valid steps of a batch: those that are neither padded nor left out by a collector."""

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
    """Return the steps that are valid in every mask, bool ``[*batch]``; ``None`` without masks.

    Masks may have any type. Their shape is the batch's shape, with or without a trailing dimension
    of one. Steps of the trajectory -1, which a collector did not collect, are not valid.

    Raises:
        BatchError: for a mask of another shape.

    >>> from tensordict import TensorDict
    >>> batch = TensorDict(batch_size=[2])
    >>> batch["collector", "mask"] = torch.tensor([[True], [False]])
    >>> valid_steps(batch)
    tensor([ True, False])
    """
    masks = [mask.bool() for key in mask_keys if (mask := read_step_entry(batch, key)) is not None]
    if (numbers := read_step_entry(batch, TRAJECTORY)) is not None:
        masks.append(numbers >= 0)
    return torch.stack(masks).all(0) if masks else None


def read_step_entry(batch: TensorDictBase, key: NestedKey) -> Tensor | None:
    """Return an entry with one number for each step, ``[*batch]``; ``None`` without the entry.

    Raises:
        BatchError: for an entry whose shape is neither ``[*batch]`` nor ``[*batch, 1]``.
    """
    entry, shape = batch.get(key, None), batch.batch_size
    if entry is None:
        return None
    if entry.shape not in (shape, (*shape, 1)):
        raise BatchError(
            f"{key} has the shape {list(entry.shape)}, wanted {list(shape)} or {[*shape, 1]}"
        )
    return entry.reshape(shape)


def drop_invalid(frames: TensorDictBase, masks: Iterable[NestedKey] = (MASK,)) -> TensorDictBase:
    """Return the valid frames ``[n]`` of a batch; the batch itself if all are valid.

    Args:
        frames: the batch ``[*]``.
        masks: the keys of the masks.

    Raises:
        BatchError: for a mask of another shape, see :func:`valid_steps`.

    >>> from tensordict import TensorDict
    >>> frames = TensorDict(a=torch.arange(3), batch_size=[3])
    >>> frames["collector", "traj_ids"] = torch.tensor([0, 0, -1])
    >>> drop_invalid(frames)["a"]
    tensor([0, 1])
    """
    valid = valid_steps(frames, masks)
    return frames if valid is None or bool(valid.all()) else frames[valid]
