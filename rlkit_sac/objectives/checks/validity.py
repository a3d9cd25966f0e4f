"""The valid steps of a batch, and the ends of trajectories in its rows."""

from collections.abc import Iterable

import torch
from tensordict import NestedKey, TensorDictBase
from torch import Tensor


def valid_steps(batch: TensorDictBase, mask_keys: Iterable[NestedKey]) -> Tensor | None:
    """The steps that are valid in every mask, bool ``[*batch]``; ``None`` without masks.

    Masks may have the batch's shape or a trailing dimension of one.

    >>> from tensordict import TensorDict
    >>> batch = TensorDict(batch_size=[2])
    >>> batch["collector", "mask"] = torch.tensor([[True], [False]])
    >>> valid_steps(batch, [("collector", "mask")])
    tensor([ True, False])
    """
    masks = [batch.get(key, None) for key in mask_keys]
    present = [mask.bool().reshape(batch.batch_size) for mask in masks if mask is not None]
    return torch.stack(present).all(0) if present else None


def fill_invalid(batch: TensorDictBase, valid: Tensor | None) -> TensorDictBase:
    """The batch with zeros in its invalid steps.

    Masking the losses alone is not enough: a NaN in a padded observation reaches the gradients
    of the weights as ``0 * NaN``.
    """
    if valid is None:
        return batch

    def fill(entry: Tensor) -> Tensor:
        mask = valid.reshape(*valid.shape, *(1,) * (entry.ndim - valid.ndim))
        return torch.where(mask, entry, torch.zeros_like(entry))

    return batch.apply(fill)


def cut_steps(done: Tensor, valid: Tensor | None) -> Tensor:
    """Steps of ``[*, T, 1]`` sequences after which the trajectory does not continue in the row."""
    if valid is None:
        return done
    last = torch.zeros_like(done[..., -1:, :])
    return done | torch.cat([~valid.unsqueeze(-1)[..., 1:, :], last], -2)
