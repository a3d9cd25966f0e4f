"""A check that the steps of a row follow each other."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from tensordict import NestedKey, TensorDictBase
from torch import Tensor

from rlkit_sac.errors import BatchError
from rlkit_sac.objectives.checks.batch import can_read

_ADVICE = (
    "Retrace needs consecutive steps along the last dimension. Draw segments (TrajectorySampler), "
    "or slices (SliceSampler) and reshape them to [B, T]"
)


def check_consecutive(
    batch: TensorDictBase, cut: Tensor, valid: Tensor | None, state_keys: Iterable[NestedKey]
) -> None:
    """Refuse rows in which a step is not the successor of the one before it.

    Three entries are evidence, where they are present and can be read (on the CPU, outside of
    compiled graphs):

    - ``("collector", "traj_ids")`` change although the episode is not done.
    - ``index`` decreases more than once between cuts. One decrease is the wrap-around of a full
      buffer, and increases above 1 are valid, since several environments can be stored block by
      block. In storages of several dimensions only the first is time; the others must not change.
    - The next state of a step differs from the state of the following step. A state entry is
      compared only if it agrees at other steps of the batch, since transforms that augment
      observations at sampling may change every one. Steps that have consecutive ``index`` and the
      same trajectory id need not agree.

    An ``index`` that is constant along a row is that of the whole segment, and no evidence.

    Args:
        batch: ``[*, T]``.
        cut: bool ``[*, T]``, where a step need not be followed by its successor.
        valid: bool ``[*, T]``, or ``None`` where every step is valid.
        state_keys: the entries that are compared with those under ``next``.

    Raises:
        BatchError: naming the first such row and step.

    >>> from tensordict import TensorDict
    >>> batch = TensorDict(index=torch.tensor([[5, 2, 4, 1]]), batch_size=[1, 4])
    >>> check_consecutive(batch, torch.zeros(1, 4, dtype=torch.bool), None, [])
    Traceback (most recent call last):
    rlkit_sac.errors.BatchError: step 1 of row 0 does not follow step 0: index goes from 5 to 2. ...
    """
    if batch.shape[-1] < 2 or not can_read(cut):
        return
    follows = ~cut[..., :-1]
    if valid is not None:
        follows = follows & valid[..., :-1]
    index, ids = _integers(batch, "index"), _integers(batch, ("collector", "traj_ids"))
    if ids is not None:
        ids = ids[..., 0]
        _refuse(follows & (ids.diff() != 0), "they are of trajectories {} and {}", ids)
    known = torch.zeros_like(follows)  # where ids and index leave no doubt
    if index is not None:
        _check_index(index, follows)
        if ids is not None:
            known = index[..., 0].diff() == 1
    for key in state_keys:
        differs = _differs(batch.get(("next", key)), batch.get(key), follows)
        if differs is not None and bool((follows & ~differs).any()):
            _refuse(
                differs & ~known,
                f"its {key!r} is not the next one of that step (where observations are augmented, "
                "keep 'index' and ('collector', 'traj_ids') in the batch)",
            )


def _check_index(index: Tensor, follows: Tensor) -> None:
    """Refuse places ``[*, T, D]`` of a storage that a ring buffer would not give to a row."""
    if index.shape[-1] > 1:
        moved = index[..., 1:].diff(dim=-2).any(-1)
        _refuse(follows & moved, "they are stored for different environments")
    place = index[..., 0]
    constant = (place == place[..., :1]).all(-1, keepdim=True)
    back = follows & (place.diff() <= 0) & ~constant
    if bool(back.any()):
        wraps = 1 + (~follows).sum(-1, keepdim=True)
        _refuse(back & (back.sum(-1, keepdim=True) > wraps), "index goes from {} to {}", place)


def _integers(batch: TensorDictBase, key: NestedKey) -> Tensor | None:
    """An entry of integers as ``[*, T, D]``, where it can be read."""
    entry = batch.get(key, None)
    if not isinstance(entry, Tensor) or entry.is_floating_point() or not can_read(entry):
        return None
    return entry.reshape(*batch.batch_size, -1)


def _differs(after: Tensor, now: Tensor, follows: Tensor) -> Tensor | None:
    """Where a step's next state is not the following state, ``[*, T - 1]``; NaN equals NaN.

    ``None`` where they agree everywhere or cannot be compared.
    """
    comparable = (after.shape, after.dtype) == (now.shape, now.dtype)
    if not comparable or not can_read(now) or not can_read(after):
        return None
    time, steps = follows.ndim - 1, follows.shape[-1]
    first, second = after.narrow(time, 0, steps), now.narrow(time, 1, steps)
    differs = follows & _any_feature(first != second, follows)
    if not bool(differs.any()):
        return None
    nan = first.isnan() & second.isnan()
    return differs & _any_feature((first != second) & ~nan, follows)


def _any_feature(x: Tensor, like: Tensor) -> Tensor:
    return x.reshape(*like.shape, -1).any(-1)


def _refuse(broken: Tensor, why: str, values: Tensor | None = None) -> None:
    if not bool(broken.any()):
        return
    *row, step = (int(place) for place in broken.nonzero()[0])
    if values is not None:
        why = why.format(*values[tuple(row)][step : step + 2].tolist())
    where = f" of row {', '.join(map(str, row))}" if row else ""
    raise BatchError(f"step {step + 1}{where} does not follow step {step}: {why}. {_ADVICE}")
